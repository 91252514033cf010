"""Text output for people: byte sizes, aligned tables, and the exit status of the commands ``craton store`` and ``craton actor``."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Container, Sequence

from craton.errors import CratonError

__all__ = ["exit_status", "format_bytes", "table_lines"]


def exit_status(name: str, work: Callable[[], int]) -> int:
    """Run a command, print a failure as one line, and return the process's exit status.

    Parameters
    ----------
    name : str
        The name of the command, for the line on standard error.
    work : callable
        Runs the command and returns its status.

    Returns
    -------
    int
        The status that `work` returns; 0 if the reader of the output closed the pipe, 1 if the command failed,
        128 + SIGINT if it was interrupted.
    """
    try:
        status = work()
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())  # so that Python's flush at exit does not fail again
        os.close(nothing)
        return 0
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except (CratonError, OSError, KeyError, ValueError, MemoryError) as error:
        text = error.args[0] if isinstance(error, KeyError) and error.args else error
        print(f"{name}: {text}", file=sys.stderr)
        return 1


def format_bytes(size: float) -> str:
    """A number of bytes for people: ``1.5 GiB``.

    Examples
    --------
    >>> format_bytes(1536)
    '1.5 KiB'
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def table_lines(rows: Sequence[Sequence[str]], left: Container[int], gap: str = " ") -> list[str]:
    """The lines of a table with aligned columns.

    Parameters
    ----------
    rows : sequence of sequences of str
        The texts of the table by row, the header included.
    left : container of int
        The numbers of the columns that are left-aligned; the others are right-aligned.
    gap : str
        The separator between two columns.

    Examples
    --------
    >>> table_lines([["name", "rows"], ["a", "12"]], left=(0,))
    ['name rows', 'a      12']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        gap.join(
            cell.ljust(width) if at in left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
