"""``%load_ext craton``: the accelerator and the profiler in a notebook."""

from __future__ import annotations

from typing import Any

from craton.accelerate.install import install, rebind, uninstall

__all__ = ["load_ipython_extension", "unload_ipython_extension"]


def load_ipython_extension(shell: Any) -> None:
    """Install Craton for the following cells, and rebind the names that earlier cells imported.

    Also adds the cell magic ``%%craton.profile``, which runs the cell and prints its profile.
    """
    install()
    rebind(shell.user_ns)

    def profile_cell(line: str, cell: str) -> None:
        from craton.profiling import profile  # most notebooks never profile

        # The code has the number and the lines of the notebook's cell, in the profile and in tracebacks.
        counted, shell.execution_count = shell.execution_count, len(shell.user_ns["In"]) - 1 or shell.execution_count
        try:
            with profile() as report:
                result = shell.run_cell(cell if cell.startswith("%%") else f"#\n{cell}")
        finally:
            shell.execution_count = counted
        print(report)
        result.raise_error()

    shell.register_magic_function(profile_cell, magic_kind="cell", magic_name="craton.profile")


def unload_ipython_extension(shell: Any) -> None:
    """Undo `load_ipython_extension`."""
    uninstall()
