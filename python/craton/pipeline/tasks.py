"""What a sandbox is asked to do, and what comes back: the interface between a pipeline's scheduler and the processes of its steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, Protocol

from craton.errors import CratonError
from craton.records import dataclass
from craton.store.sets import LocalitySet

__all__ = ["Cause", "Form", "Limits", "Outcome", "Setting", "StepError", "StepRunner", "StepTask", "Stored"]

#: What a step makes or takes: a table of one of these libraries, or a NumPy array.
Form = Literal["arrow", "pandas", "polars", "craton", "numpy"]

#: Why a step failed: its function raised; its process ended without an answer; it took too long; it needed more memory than its limit;
#: it returned what is no table; its inputs or its environment could not be made.
Cause = Literal["raised", "ended", "time", "memory", "output", "environment"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What the process of a step may use; None for no limit.

    Parameters
    ----------
    memory
        Bytes, besides its inputs.
    cpus
        Number of processors.
    seconds
        Time from the start of the function to its end.
    """

    memory: int | None = None
    cpus: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """Where a step runs.

    Parameters
    ----------
    packages
        Requirements, as for ``pip``, of a virtual environment of its own; empty for this process's environment.
    variables
        Names and values of environment variables, besides those of this process.
    """

    packages: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Stored:
    """A table in the store.

    Parameters
    ----------
    pages
        The set that has its pages.
    form
        What it was when it was made.
    rows, nbytes
        Rows, and bytes of its buffers.
    """

    pages: LocalitySet
    form: Form
    rows: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class StepTask:
    """One call of a step's function.

    Parameters
    ----------
    step
        The step's name, for messages.
    function
        The function, pickled by value.
    inputs
        For each parameter of the function its table, and the form in which the function takes it.
    parameters
        Other arguments.
    taking
        Makes the context in which the output becomes pages of the store, when the function has ended well: memory that was reserved for
        the function is the output's then.
    """

    step: str
    function: bytes
    inputs: Mapping[str, tuple[Stored, Form]]
    parameters: Mapping[str, Any]
    limits: Limits = Limits()
    setting: Setting = Setting()
    taking: Callable[[], AbstractContextManager[None]] = nullcontext


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call made.

    Parameters
    ----------
    outputs
        The tables; with the name None if the function returned one table.
    new, copied, shared
        Bytes of the outputs' buffers: written by the process and handed over without a copy; copied once; and of the inputs, by reference.
    seconds, cpu_seconds, peak_memory
        Time from the function's start to its end, processor time, and the most bytes that the process had, besides its inputs.
    printed
        What it wrote to standard output and standard error.
    """

    outputs: Mapping[str | None, Stored]
    new: int
    copied: int
    shared: int
    seconds: float
    cpu_seconds: float
    peak_memory: int
    printed: str = ""


class StepError(CratonError):
    """A step of a pipeline failed.

    Parameters
    ----------
    step
        Its name.
    cause
        Why.
    message
        The exception that the function raised, or a sentence.
    traceback
        The traceback of the function, in its process; empty if there is none.
    printed
        What it wrote to standard output and standard error.
    """

    def __init__(self, step: str, cause: Cause, message: str, traceback: str = "", printed: str = "") -> None:
        super().__init__(step, cause, message, traceback, printed)
        self.step, self.cause, self.message, self.traceback, self.printed = step, cause, message, traceback, printed

    def __str__(self) -> str:
        text = f"step {self.step!r}: {self.message}"
        return f"{text}\n\n{self.traceback.rstrip()}" if self.traceback else text


class StepRunner(Protocol):
    """Runs tasks, each in a process of its own. Its methods can be called from several threads."""

    def run(self, task: StepTask) -> Outcome:
        """Run a task to its end, and return what it made.

        Raises
        ------
        StepError
            If it failed. The store has nothing of it then.
        """
        ...

    def close(self) -> None:
        """End all processes. Tasks that run fail."""
        ...
