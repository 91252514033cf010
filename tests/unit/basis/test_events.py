"""Events reach all subscribers, whose errors affect nobody else; fallbacks are counted, and warn or raise if asked to."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import craton
from craton import events, fallbacks
from craton.errors import FallbackError, FallbackWarning
from craton.refusals import Reason, Refusal


@pytest.fixture
def heard() -> Any:
    received: list[tuple[str, dict[str, Any]]] = []

    def listen(kind: str, fields: dict[str, Any]) -> None:
        received.append((kind, fields))

    events.subscribe(listen)
    yield received
    events.unsubscribe(listen)


def test_an_event_reaches_its_subscriber(heard: list[Any]) -> None:
    events.emit("run", seconds=0.5, rows=3, operators=2)
    assert heard == [("run", {"seconds": 0.5, "rows": 3, "operators": 2})]


def test_active_tells_whether_anybody_listens() -> None:
    def first(kind: str, fields: dict[str, Any]) -> None: ...

    def second(kind: str, fields: dict[str, Any]) -> None: ...

    before = events.active
    events.subscribe(first)
    events.subscribe(second)
    events.unsubscribe(first)
    assert events.active
    events.unsubscribe(second)
    assert events.active is before


def test_subscribing_twice_is_subscribing_once(heard: list[Any]) -> None:
    counted: list[str] = []

    def count(kind: str, fields: dict[str, Any]) -> None:
        counted.append(kind)

    events.subscribe(count)
    events.subscribe(count)
    events.emit("call")
    events.unsubscribe(count)
    events.emit("call")
    assert counted == ["call"]


def test_a_subscriber_that_raises_is_removed_and_the_others_are_served(heard: list[Any]) -> None:
    def broken(kind: str, fields: dict[str, Any]) -> None:
        raise ZeroDivisionError("mine")

    events.subscribe(broken)
    with pytest.warns(RuntimeWarning, match="ZeroDivisionError"):
        events.emit("call", name="a")
    events.emit("call", name="b")
    assert [fields["name"] for _, fields in heard] == ["a", "b"]


def test_subscribing_from_many_threads_loses_nobody() -> None:
    subscribers = [lambda kind, fields, _=number: None for number in range(200)]
    threads = [threading.Thread(target=events.subscribe, args=(subscriber,)) for subscriber in subscribers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(subscribers) <= set(events._subscribers)
    for subscriber in subscribers:
        events.unsubscribe(subscriber)
    assert not set(subscribers) & set(events._subscribers)


@pytest.fixture
def forgotten() -> Any:
    fallbacks.reset()
    yield
    fallbacks.reset()


FUNCTION = Reason(Refusal.FUNCTION_ON_COLUMN)


@pytest.mark.usefixtures("forgotten")
class TestFallbacks:
    def test_calls_are_counted_by_method_and_reason(self) -> None:
        fallbacks.count("DataFrame.apply", FUNCTION)
        fallbacks.count("DataFrame.merge", Reason(Refusal.PARAMETER, "validate='1:1'"))
        fallbacks.count("DataFrame.apply", FUNCTION)
        fallbacks.count("DataFrame.apply", Reason(Refusal.PARAMETER, "axis"))
        told = fallbacks.explain_fallbacks()
        assert told.to_dict("split")["data"] == [
            ["DataFrame.apply", "a function of a whole column", 2, ""],
            ["DataFrame.apply", "the parameter axis", 1, ""],
            ["DataFrame.merge", "the parameter validate='1:1'", 1, ""],
        ]
        assert list(told.columns) == ["method", "reason", "count", "instead"]

    def test_an_empty_count_has_the_same_columns_and_dtypes(self) -> None:
        empty = fallbacks.explain_fallbacks()
        fallbacks.count("DataFrame.apply", FUNCTION)
        assert empty.dtypes.equals(fallbacks.explain_fallbacks().dtypes)
        assert len(empty) == 0

    def test_warn_names_the_line_of_the_user(self) -> None:
        with craton.option_context(fallback="warn"), pytest.warns(FallbackWarning) as caught:
            fallbacks.count("DataFrame.apply", FUNCTION)
        assert caught[0].filename == __file__
        assert (
            str(caught[0].message) == "DataFrame.apply runs in pandas, not in the engine: a function of a whole column"
        )

    def test_error_raises_and_says_what_to_do(self) -> None:
        with craton.option_context(fallback="error"), pytest.raises(FallbackError, match=r"craton\.options\.fallback"):
            fallbacks.count("DataFrame.apply", FUNCTION)
        assert len(fallbacks.explain_fallbacks()) == 1
