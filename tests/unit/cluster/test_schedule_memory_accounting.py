"""Memory that a process retains between tasks is reserved in the store."""

from __future__ import annotations

import pytest

from craton.schedule import memory_accounting
from craton.schedule.memory_accounting import RetainedMemory
from craton.store import Store

MIB = 1 << 20


def test_retained_memory_is_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    own = [100 * MIB]
    given: list[int] = []
    monkeypatch.setattr(memory_accounting, "own_memory", lambda: own[0])
    monkeypatch.setattr(memory_accounting, "release_freed_memory", lambda: given.append(own[0]))
    with Store.open(1024 * MIB) as store:

        def reserved() -> int:
            return int(store.counters()["reserved"]) // MIB

        retained = RetainedMemory(store, 320 * MIB)
        retained.begin()
        for now, expected in ((105, 0), (150, 50), (155, 50), (400, 80), (100, 0), (90, 0)):
            own[0] = now * MIB
            retained.begin()  # only the first call counts
            retained.settle()
            assert (reserved(), retained.nbytes // MIB) == (expected, expected), now
        assert given == [150 * MIB, 155 * MIB, 400 * MIB]
        own[0] = 150 * MIB
        retained.settle()
        retained.release()
        retained.release()
        assert (reserved(), retained.nbytes) == (0, 0)


def test_with_ample_memory_only_what_cannot_be_reserved_is_returned_to_the_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = [0]
    given: list[int] = []
    monkeypatch.setattr(memory_accounting, "own_memory", lambda: own[0])
    monkeypatch.setattr(memory_accounting, "release_freed_memory", lambda: given.append(own[0]))
    with Store.open(8192 * MIB) as store:
        retained = RetainedMemory(store, 4096 * MIB)
        retained.begin()
        for now, expected in ((800, 800), (1200, 1024), (700, 700)):
            own[0] = now * MIB
            retained.settle()
            assert retained.nbytes == expected * MIB
        assert given == [1200 * MIB]
        retained.release()


def test_less_is_reserved_if_the_store_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    own = [0]
    monkeypatch.setattr(memory_accounting, "own_memory", lambda: own[0])
    with Store.open(64 * MIB) as store, store.reserve(60 * MIB):
        retained = RetainedMemory(store, 320 * MIB)
        retained.begin()
        own[0] = 40 * MIB
        retained.settle()
        assert int(store.counters()["reserved"]) == 64 * MIB
        retained.release()
        assert int(store.counters()["reserved"]) == 60 * MIB
