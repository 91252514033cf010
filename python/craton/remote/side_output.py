"""The side output of a function that runs in a worker: printed text, warnings, and the exception that it raises.

It is recorded in the worker, returned with the results, and replayed in the program in the order of the items, as if the function
had been called there.
"""

from __future__ import annotations

import contextlib
import io
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from craton import forks
from craton.actor.errors import RemoteTraceback
from craton.serialize import deserialize, serialize

__all__ = ["SideOutput", "pack_exception", "record_output", "replay_output", "unpack_exception"]

_STREAMS = ("stdout", "stderr")


@dataclass(slots=True)
class SideOutput:
    """Text and warnings that were recorded.

    Attributes
    ----------
    text
        Pairs of a stream's name and the text that was written to it, in order.
    warned
        Serialized arguments of :func:`warnings.warn_explicit`: message, category, file name and line number.
    """

    text: list[tuple[str, str]] = field(default_factory=list)
    warned: list[bytes] = field(default_factory=list)


class _Stream(io.TextIOBase):
    """Replaces a standard stream: records what threads in :func:`record_output` write, and passes on the text of other threads."""

    def __init__(self, name: str, behind: Any) -> None:
        self._name = name
        self.behind = behind

    def write(self, text: str) -> int:
        recorded: SideOutput | None = getattr(_listening, "recorded", None)
        if recorded is None:
            return self.behind.write(text)  # type: ignore[no-any-return]
        if type(text) is not str:
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        recorded.text.append((self._name, text))
        return len(text)

    def flush(self) -> None:
        if getattr(_listening, "recorded", None) is None:
            self.behind.flush()

    def writable(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)


_listening = threading.local()
_installing = forks.lock()


@contextlib.contextmanager
def record_output(filters: list[Any]) -> Iterator[SideOutput]:
    """Record what this thread writes to the standard streams, and its warnings, within a block.

    Parameters
    ----------
    filters
        The program's warning filters, which apply within the block.
    """
    recorded = SideOutput()
    with _installing:
        for name in _STREAMS:
            if not isinstance(getattr(sys, name), _Stream):
                setattr(sys, name, _Stream(name, getattr(sys, name)))
    with warnings.catch_warnings():
        before, outer = warnings.showwarning, getattr(_listening, "recorded", None)
        if filters:
            warnings.resetwarnings()
            warnings.filters.extend(filters)  # type: ignore[attr-defined]

        def show(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
            if getattr(_listening, "recorded", None) is not recorded:
                before(message, category, filename, lineno, file, line)
                return
            with contextlib.suppress(Exception):  # a warning that cannot be pickled is dropped
                recorded.warned.append(bytes(serialize((message, category, filename, lineno))))

        warnings.showwarning = show
        _listening.recorded = recorded
        try:
            yield recorded
        finally:
            _listening.recorded = outer


def replay_output(recorded: SideOutput) -> None:
    """Write recorded text to this process's streams, and issue recorded warnings."""
    for name, text in recorded.text:
        stream = getattr(sys, name)
        if stream is not None:
            stream.write(text)
    for one in recorded.warned:
        message, category, filename, lineno = deserialize(one)
        registry = _registries.setdefault(filename, {})
        warnings.warn_explicit(message, category, filename, lineno, registry=registry)


_registries: dict[str, dict[Any, Any]] = {}


# -- exceptions -------------------------------------------------------------------------------------------------------


def pack_exception(error: BaseException) -> bytes:
    """Serialize an exception, the chain of its causes, and its traceback as text."""
    _strip_own_frames(error)
    text = "".join(traceback.format_exception(error))
    chain: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in chain:
        chain.append(one)
        one = one.__cause__
    return bytes(serialize(([_pack_one(one) for one in chain], text)))


def _strip_own_frames(error: BaseException) -> None:
    """Remove Craton's frames from the beginning of the traceback."""
    at = error.__traceback__
    while at is not None and str(at.tb_frame.f_globals.get("__name__")).startswith("craton."):
        at = at.tb_next
    if at is not None:
        error.__traceback__ = at


def unpack_exception(failure: bytes) -> BaseException:
    """Deserialize an exception of :func:`pack_exception`; the last of its causes has the original traceback as text."""
    chain, text = deserialize(failure)
    made = [_unpack_one(*one) for one in chain]
    for error, cause in zip(made, [*made[1:], RemoteTraceback(text)], strict=True):
        error.__cause__ = cause
    first: BaseException = made[0]
    return first


def _pack_one(error: BaseException) -> tuple[type, bytes | None, tuple[Any, ...], dict[str, Any]]:
    """Return an exception's class and pickle; if that does not unpickle to the class, the picklable arguments and attributes instead."""
    kind = type(error)
    bare = error.with_traceback(None)
    try:
        pickled = bytes(serialize(bare))
        if type(deserialize(pickled)) is kind:
            return kind, pickled, (), {}
    except Exception:  # many exception classes cannot be unpickled, because their `args` do not match `__init__`
        pass
    args = tuple(value if _can_be_pickled(value) else repr(value) for value in error.args)
    state = {name: value for name, value in vars(error).items() if _can_be_pickled(value)}
    return (kind if _can_be_pickled(kind) else Exception), None, args, state


def _unpack_one(kind: Any, pickled: bytes | None, args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    if pickled is not None:
        error: BaseException = deserialize(pickled)
        return error
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


def _can_be_pickled(value: Any) -> bool:
    try:
        deserialize(serialize(value))
    except Exception:
        return False
    return True
