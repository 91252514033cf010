"""Exceptions reach the caller with their class and state, and do not disturb other callers."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import types
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

import pytest

import craton.actor as xo
from craton.actor.wire import frames, peers
from craton.actor.wire.exceptions import sendable
from craton.serialize import decode, encode
from tests.unit.actor.actors import of


class Two(Exception):
    """An exception whose class cannot be called with its `args`."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class Prefixed(Exception):
    """An exception from whose `args` its class makes a different exception."""

    def __init__(self, text: str, count: int = 0) -> None:
        super().__init__(f"prefix {text}")
        self.count = count


class Missing(FileNotFoundError):
    def __init__(self, path: str, *, why: str) -> None:
        super().__init__(2, why, path)
        self.why = why


class Holding(ValueError):
    derived: ClassVar[list[type]] = []

    def __init_subclass__(cls) -> None:
        cls.derived.append(cls)

    def __init__(self, text: str) -> None:
        super().__init__(text, threading.Lock())
        self.lock, self.size = threading.Lock(), 5


class Reduced(Exception):
    def __reduce__(self) -> Any:
        raise RuntimeError("not to be written")


class Fatal(BaseException):
    pass


def _noted() -> Exception:
    error = Two(1, "noted")
    error.add_note("a note")
    return error


ERRORS: dict[str, Callable[[], BaseException]] = {
    "builtin": lambda: KeyError("a"),
    "decoding": lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    "two": lambda: Two(7, "seven"),
    "prefixed": lambda: Prefixed("text", 3),
    "file": lambda: Missing("/nowhere", why="gone"),
    "noted": _noted,
    "holding": lambda: Holding("held"),
    "reduced": lambda: Reduced("kept"),
    "group": lambda: ExceptionGroup("several", [KeyError("a"), Two(1, "in it"), ExceptionGroup("in", [Prefixed("x")])]),
    "fatal": lambda: Fatal("not an Exception"),
    "local": lambda: type("Local", (LookupError,), {})("of a function"),
}


class Raising(xo.StatelessActor):
    def plain(self, name: str) -> None:
        raise ERRORS[name]()

    async def waits(self, name: str) -> None:
        await asyncio.sleep(0)
        raise ERRORS[name]()

    def ends(self) -> Any:
        return next(iter(()))

    def cancels(self) -> None:
        raise asyncio.CancelledError

    async def cancels_later(self) -> None:
        await asyncio.sleep(0)
        raise asyncio.CancelledError

    def unknown(self) -> None:
        module = types.ModuleType("only_there")
        exec("class Unknown(Exception): pass", module.__dict__)
        sys.modules["only_there"] = module
        raise module.Unknown("text")

    def echo(self, value: Any) -> Any:
        return value


def run(work: Callable[[Any], Awaitable[Any]]) -> None:
    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=1) as pool:
            ref = await xo.create_actor(Raising, address=pool.external_address, allocate_strategy=of(1))
            await asyncio.wait_for(work(ref), 30)

    asyncio.run(main())


def test_exceptions_arrive_with_class_and_state() -> None:
    async def work(ref: Any) -> None:
        for name, make in ERRORS.items():
            for method in (ref.plain, ref.waits):
                expected = make()
                with pytest.raises(BaseException) as caught:
                    await method(name)
                error = caught.value
                assert type(error).__qualname__ == type(expected).__qualname__
                if name not in ("local", "holding"):
                    assert type(error) is type(expected)
                if name != "holding":
                    assert str(error) == str(expected)
                assert "Traceback" in str(error.__cause__)
                assert getattr(error, "__notes__", None) == getattr(expected, "__notes__", None)
        with pytest.raises(Missing) as missing:
            await ref.plain("file")
        assert (missing.value.errno, missing.value.filename, missing.value.why) == (2, "/nowhere", "gone")
        with pytest.raises(Holding) as holding:
            await ref.plain("holding")
        assert (holding.value.args[0], holding.value.size) == ("held", 5)
        assert "lock" in holding.value.args[1]
        assert "lock" in holding.value.lock  # type: ignore[operator]
        # Values that could not be serialized arrive as text. The exception, which then has the additional base class
        # SendMessageFailed, can be sent again. The class's `__init_subclass__` is not called.
        parts = encode(sendable(holding.value))
        again = decode(parts.meta, parts.buffers)
        for one in (holding.value, again):
            assert isinstance(one, xo.SendMessageFailed)
        assert type(again) is type(holding.value)
        assert again.args == holding.value.args
        assert Holding.derived == []
        with pytest.raises(ExceptionGroup) as group:
            await ref.plain("group")
        assert [type(one) for one in group.value.exceptions] == [KeyError, Two, ExceptionGroup]
        assert str(group.value.exceptions[2].exceptions[0]) == "prefix x"  # type: ignore[attr-defined]

    run(work)


def test_exceptions_that_futures_cannot_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "GRACE", 60.0)

    async def work(ref: Any) -> None:
        other = asyncio.ensure_future(ref.waits("builtin"))
        with pytest.raises(RuntimeError, match="StopIteration"):
            await ref.ends()
        # A cancellation raised by the callee arrives immediately, without a cancel message of the caller.
        for method in (ref.cancels, ref.cancels_later):
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(method(), 10)
        with pytest.raises(ImportError, match="only_there") as caught:
            await ref.unknown()
        assert "only_there.Unknown: text" in str(caught.value.__cause__)
        with pytest.raises(KeyError):
            await other
        assert await ref.echo(1) == 1

    run(work)


def test_an_exception_that_cannot_be_sent_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hidden(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    def refuse(value: Any) -> Any:
        raise TypeError("nothing can be written")

    monkeypatch.setattr("craton.actor.wire.exceptions.encode", refuse)
    sent = sendable(Hidden())
    assert type(sent) is xo.SendMessageFailed
    assert "Hidden" in str(sent)
    assert type(sendable(KeyError("a"))) is KeyError


def test_errors_keep_no_values_alive() -> None:
    class Value:
        def __reduce__(self) -> Any:
            raise RuntimeError("not to be written")

    value = Value()
    seen = weakref.ref(value)
    gc.disable()
    try:
        with pytest.raises(xo.SendMessageFailed, match="not to be written") as caught:
            frames.pack((0, 1), [memoryview(bytearray(9)), value])
        steps = caught.value.__cause__.__traceback__
        assert steps is not None  # the traceback is there, and its frames keep no values
        while steps is not None:
            assert not [one for one in steps.tb_frame.f_locals.values() if one is value]
            steps = steps.tb_next
        del value, caught
        assert seen() is None
    finally:
        gc.enable()
