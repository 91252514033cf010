"""What a process keeps after its tasks is taken from the store's memory."""

from __future__ import annotations

import pytest

from craton.schedule import memory_accounting
from craton.schedule.memory_accounting import Remainder
from craton.store import Store

MIB = 1 << 20


def test_what_a_process_keeps_is_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    own = [100 * MIB]
    given: list[int] = []
    monkeypatch.setattr(memory_accounting, "own_memory", lambda: own[0])
    monkeypatch.setattr(memory_accounting, "release_freed_memory", lambda: given.append(own[0]))
    with Store.open(1024 * MIB) as store:

        def reserved() -> int:
            return int(store.counters()["reserved"]) // MIB

        remainder = Remainder(store, 320 * MIB)
        remainder.begin()
        for now, expected in ((105, 0), (150, 50), (155, 50), (400, 80), (100, 0), (90, 0)):
            own[0] = now * MIB
            remainder.begin()  # only the first counts
            remainder.settle()
            assert (reserved(), remainder.nbytes // MIB) == (expected, expected), now
        assert given == [150 * MIB, 155 * MIB, 400 * MIB]
        own[0] = 150 * MIB
        remainder.settle()
        remainder.release()
        remainder.release()
        assert (reserved(), remainder.nbytes) == (0, 0)


def test_where_there_is_much_memory_only_what_cannot_be_reserved_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    own = [0]
    given: list[int] = []
    monkeypatch.setattr(memory_accounting, "own_memory", lambda: own[0])
    monkeypatch.setattr(memory_accounting, "release_freed_memory", lambda: given.append(own[0]))
    with Store.open(8192 * MIB) as store:
        remainder = Remainder(store, 4096 * MIB)
        remainder.begin()
        for now, expected in ((800, 800), (1200, 1024), (700, 700)):
            own[0] = now * MIB
            remainder.settle()
            assert remainder.nbytes == expected * MIB
        assert given == [1200 * MIB]
        remainder.release()


def test_what_a_process_keeps_may_not_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    own = [0]
    monkeypatch.setattr(memory_accounting, "own_memory", lambda: own[0])
    with Store.open(64 * MIB) as store, store.reserve(60 * MIB):
        remainder = Remainder(store, 320 * MIB)
        remainder.begin()
        own[0] = 40 * MIB
        remainder.settle()
        assert int(store.counters()["reserved"]) == 64 * MIB
        remainder.release()
        assert int(store.counters()["reserved"]) == 60 * MIB
