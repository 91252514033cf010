"""Classes that users derive from DataFrame and Series: results are of their class and carry their attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest

import craton
import craton.pandas


def classes(module: Any) -> tuple[type, type]:
    """A frame class and a column class with an attribute; slicing and expanding convert between them."""

    class Column(module.Series):  # type: ignore[misc]
        _metadata = ["name", "unit"]  # noqa: RUF012 - as pandas documents it

        @property
        def _constructor(self) -> type:
            return Column

        @property
        def _constructor_expanddim(self) -> type:
            return Frame

    class Frame(module.DataFrame):  # type: ignore[misc]
        _metadata = ["unit"]  # noqa: RUF012 - as pandas documents it

        @property
        def _constructor(self) -> type:
            return Frame

        @property
        def _constructor_sliced(self) -> type:
            return Column

    return Frame, Column


FRAME_PROGRAMS: list[Callable[[Any], Any]] = [
    lambda frame: frame[frame["a"] > 1],
    lambda frame: frame["a"],
    lambda frame: frame[["a", "b"]],
    lambda frame: frame.loc[1:, "b"],
    lambda frame: frame.iloc[:2],
    lambda frame: frame.sort_values("b"),
    lambda frame: frame + 1,
    lambda frame: frame.melt(),
    lambda frame: frame.sum(),
    lambda frame: frame.assign(c=1),
    lambda frame: frame.head(2),
    lambda frame: frame.merge(frame, on="a"),
]
COLUMN_PROGRAMS: list[Callable[[Any], Any]] = [
    lambda column: column[column > 1],
    lambda column: column * 2,
    lambda column: column.add(1, fill_value=0),
    lambda column: column.to_frame(),
    lambda column: column.head(2),
    lambda column: column.sort_values(),
]


def outcome(module: Any, program: Callable[[Any], Any], column: bool) -> Any:
    frame_class, column_class = classes(module)
    obj = column_class([3, 1, 2], name="x") if column else frame_class({"a": [3, 1, 2], "b": np.arange(3.0)})
    obj.unit = "kg"
    result = program(obj)
    return type(result).__name__, getattr(result, "unit", None), pandas.DataFrame(result).to_dict()


@pytest.mark.parametrize("program", FRAME_PROGRAMS)
def test_results_of_a_frame_class(program: Callable[[Any], Any]) -> None:
    with craton.option_context(small_rows=0):
        got = outcome(craton.pandas, program, False)
    assert got == outcome(pandas, program, False)


@pytest.mark.parametrize("program", COLUMN_PROGRAMS)
def test_results_of_a_column_class(program: Callable[[Any], Any]) -> None:
    with craton.option_context(small_rows=0):
        got = outcome(craton.pandas, program, True)
    assert got == outcome(pandas, program, True)


@pytest.mark.parametrize("name", ["__getitem__", "convert_dtypes"])
def test_a_class_that_names_only_its_own_constructor(name: str) -> None:
    def kind(module: Any) -> tuple[str, str]:
        class Frame(module.DataFrame):  # type: ignore[misc]
            @property
            def _constructor(self) -> type:
                return Frame

        frame = Frame({"a": [1, 2], "b": [3, 4]})
        result = frame[["a"]] if name == "__getitem__" else frame.convert_dtypes()
        return type(result).__name__, type(frame["a"]).__name__

    with craton.option_context(small_rows=0):
        assert kind(craton.pandas) == kind(pandas)
