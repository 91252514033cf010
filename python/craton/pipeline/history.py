"""What earlier runs of steps needed: memory, time and the size of outputs, by the size of inputs."""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from craton.records import dataclass

__all__ = ["History", "Run"]

#: Runs of one step that are remembered.
_RUNS = 8
#: Bytes that a step is expected to need, besides twice its inputs, before it ever ran.
_UNKNOWN = 64 << 20
#: How much more than ever before a step is expected to need.
_MARGIN = 1.1


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of a step needed: bytes of inputs, most bytes besides them, bytes of outputs, and seconds."""

    inputs: int
    peak: int
    output: int
    seconds: float


class History:
    """Runs of steps by key, for all threads.

    Parameters
    ----------
    path
        A JSON file that they are read from, and written to by :meth:`save`. A file that cannot be read is as none.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._path = None if path is None else Path(path)
        self._lock = threading.Lock()
        self._runs: dict[str, deque[Run]] = {}
        if self._path is not None:
            try:
                read = json.loads(self._path.read_text())
                made = {
                    str(key): deque((Run(int(i), int(p), int(o), float(s)) for i, p, o, s in runs), _RUNS)
                    for key, runs in read.items()
                }
            except (OSError, ValueError, TypeError, AttributeError):
                return
            self._runs = made

    def add(self, key: str, run: Run) -> None:
        """Remember a run."""
        with self._lock:
            self._runs.setdefault(key, deque(maxlen=_RUNS)).append(run)

    def knows(self, key: str) -> bool:
        """Whether a step ran before."""
        return key in self._runs

    def memory(self, key: str, inputs: int) -> int:
        """The bytes that a step is expected to need besides its inputs: in proportion to larger inputs, and never less than before."""
        return int(_MARGIN * self._largest(key, inputs, lambda run: run.peak, 2.0 * inputs + _UNKNOWN))

    def output(self, key: str, inputs: int) -> int:
        """The expected bytes of a step's outputs."""
        return int(self._largest(key, inputs, lambda run: run.output, float(inputs)))

    def seconds(self, key: str, inputs: int) -> float:
        """The expected time of a step, in seconds."""
        return self._largest(key, inputs, lambda run: run.seconds, 0.1 + inputs / 1e9)

    def _largest(self, key: str, inputs: int, field: Callable[[Run], float], unknown: float) -> float:
        with self._lock:
            runs = list(self._runs.get(key, ()))
        return max((field(run) * max(1.0, inputs / max(run.inputs, 1 << 20)) for run in runs), default=unknown)

    def save(self) -> None:
        """Write the file, as a whole. Nothing is written without a path.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        if self._path is None:
            return
        with self._lock:
            text = json.dumps(
                {
                    key: [[run.inputs, run.peak, run.output, run.seconds] for run in runs]
                    for key, runs in self._runs.items()
                }
            )
        new = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        try:
            new.write_text(text)
            new.replace(self._path)
        finally:
            new.unlink(missing_ok=True)
