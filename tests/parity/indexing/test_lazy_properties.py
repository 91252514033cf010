"""Properties of lazy objects that are known without computing them, against pandas."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pandas
import pytest
from support import check

import craton
import craton.pandas
from craton.pandas.core.routing import is_lazy

FRAME = pandas.DataFrame(
    {"i": [3, 1, 2], "f": [1.5, np.nan, 2.5], "s": ["b", None, "a"], "b": [True, False, True]},
    index=pandas.Index(["x", "y", "z"], name="k"),
)
FRAMES = {
    "labels": FRAME,
    "default": FRAME.reset_index(drop=True),
    "times": FRAME.set_axis(pandas.date_range("2020-01-01", periods=3)),
    "levels": FRAME.set_index("i", append=True),
    "floats": FRAME.set_axis([0.5, 1.5, np.nan]),
    "empty": FRAME[:0],
    "nullable": FRAME.set_axis(pandas.array([1, None, 3], dtype="Int64")),
    "category": FRAME.set_axis(pandas.Categorical(["a", "b", "a"])),
    "zoned": FRAME.set_axis(pandas.date_range("2020-01-01", periods=3, tz="Europe/Berlin")),
}


@pytest.fixture(params=FRAMES)
def frame(request):
    return FRAMES[request.param]


@pytest.mark.parametrize(
    "read",
    [
        lambda df: df.index, lambda df: df.columns, lambda df: df.axes, lambda df: df.dtypes, lambda df: df.shape,
        lambda df: df.size, lambda df: df.ndim, lambda df: df.empty, lambda df: len(df), lambda df: list(df),
        lambda df: "i" in df, lambda df: "nope" in df, lambda df: df.keys(), lambda df: df.f.keys(), lambda df: df.f.dtype,
        lambda df: df.f.shape, lambda df: df.f.size, lambda df: df.f.ndim, lambda df: df.f.empty, lambda df: df.f.axes,
        lambda df: df.f.name, lambda df: "x" in df.f, lambda df: 0 in df.f, lambda df: df.f.dtypes, lambda df: df.index.name,
        lambda df: df.index.names, lambda df: type(df.index).__name__, lambda df: df.index.dtype, lambda df: df[df.i > 1].index,
        lambda df: type(df[df.i > 1].index).__name__, lambda df: df[df.i > 9].empty, lambda df: df[df.i > 9].f.empty,
        lambda df: df[["i", "f"]].head(2).index, lambda df: bool(df.index.equals(df.f.index)), lambda df: df.index is df.index,
        lambda df: df.columns is df.columns, lambda df: df.index[0:1], lambda df: df.index.tolist(), lambda df: repr(df.index),
        lambda df: df.index.isin(["x"]), lambda df: df.index + df.index if df.index.dtype != "category" else None,
        lambda df: list(df.items()), lambda df: df.index.to_series(), lambda df: df.index.copy(), lambda df: df.index.rename("q"),
    ],
)  # fmt: skip
def test_properties(frame, read):
    check(lambda pd, df: read(df), frame, native=None)


@pytest.mark.parametrize(
    "change",
    [
        lambda df: setattr(df.index, "name", "q"),
        lambda df: setattr(df.index, "names", ["q"] * df.index.nlevels),
        lambda df: setattr(df.columns, "name", "q"),
        lambda df: setattr(df, "index", [9, 8, 7]),
        lambda df: setattr(df, "index", range(3)),
        lambda df: setattr(df, "index", pandas.MultiIndex.from_product([["a"], [1, 2, 3]], names=["p", "q"])),
        lambda df: setattr(df, "index", [1]),
        lambda df: setattr(df, "index", df.f),
        lambda df: setattr(df, "columns", ["i", "f", "s", "q"][: df.shape[1]]),
        lambda df: setattr(df, "columns", pandas.Index(["i", "f", "s", "q"][: df.shape[1]], name="n")),
        lambda df: setattr(df, "columns", ["q"]),
        lambda df: df.attrs.update(a=1),
    ],
)
def test_changing_axes(frame, change):
    def program(pd, df):
        before, column = df.copy(), df["f"]
        change(df)
        after = df.copy()
        return df, before, column, after, after["f"], df.attrs, before.index.name, df.index.name, df[df.f > 1]

    check(program, frame, native=None)


def test_series_axes(frame):
    def program(pd, df):
        series = df["f"]
        series.index.name = "q"
        series.name = "w"
        other = series * 2
        series.index = range(len(series))
        return series, other, df

    check(program, frame, native=None)


def test_nothing_is_computed():
    with craton.option_context(small_rows=0):
        frame = craton.pandas.DataFrame(FRAME)
        chosen = frame[frame.i > 1]
        facts = (chosen.columns, chosen.dtypes, chosen.ndim, chosen.keys(), "i" in chosen, list(chosen), chosen.f.dtype)
        labels = chosen.f.index
        assert "_data" not in labels.__dict__
        assert len(facts) == 7
        assert is_lazy(chosen)
        assert labels.tolist() == ["x", "z"]
        assert "_data" in labels.__dict__
        assert is_lazy(chosen)


def test_membership_in_lazy_labels_is_planned():
    def program(pd, df):
        return df[df.s.isin(df[df.i > 1].set_index("s").index)]

    check(program, FRAME)


def test_a_lazy_index_pickles():
    with craton.option_context(small_rows=0):
        frame = craton.pandas.DataFrame(FRAME)
        labels = frame[frame.i > 1].index
        pandas.testing.assert_index_equal(pickle.loads(pickle.dumps(labels)), pandas.Index(["x", "z"], name="k"))


def test_default_labels_of_unknown_length():
    def program(pd, df):
        fresh = df.drop_duplicates("b").reset_index(drop=True)
        labels = fresh.index
        fresh.index.name = "n"
        return fresh["f"] * 2, labels, len(labels), fresh, type(labels).__name__

    check(program, FRAME, native=None)


ROWS = 1000
LONG = pandas.DataFrame(
    {
        "i": np.arange(ROWS) * 7 % 13,
        "f": np.where(np.arange(ROWS) % 3 == 0, np.nan, np.arange(ROWS) / 8),
        "s": [None if i % 5 == 0 else f"text {i}" for i in range(ROWS)],
        "t": pandas.date_range("2020-01-01", periods=ROWS),
        "c": pandas.Categorical(["a", "b"] * (ROWS // 2)),
    }
)
LONGS = {
    "default": LONG,
    "labels": LONG.set_index("s"),
    "levels": LONG.set_index(["s", "i"]),
    "times": LONG.set_index("t"),
    "wide": pandas.concat([LONG[["i", "f"]].add_suffix(str(k)) for k in range(30)], axis=1),
    "named": LONG.rename_axis(index="rows", columns="columns"),
    "repeated": LONG[["i", "i"]],
}


@pytest.mark.parametrize("kind", LONGS)
@pytest.mark.parametrize(
    "show",
    [
        repr,
        str,
        lambda df: df._repr_html_(),
        lambda df: repr(df.iloc[:, 0]),
        lambda df: repr(df.iloc[:150]),
        lambda df: repr(df.iloc[:0]),
        lambda df: repr(df.iloc[:30].iloc[:, -1]),
    ],
)
def test_printed(kind, show):
    check(lambda pd, df: show(df), LONGS[kind])


@pytest.mark.parametrize(
    "option",
    [
        ("display.max_rows", 20), ("display.max_rows", None), ("display.max_rows", 0), ("display.min_rows", None),
        ("display.show_dimensions", False), ("display.show_dimensions", True), ("display.width", 40),
        ("display.max_columns", 3), ("display.large_repr", "info"), ("display.max_rows", 2000), ("display.precision", 2),
    ],
    ids=str,
)  # fmt: skip
def test_printed_under_options(option):
    def program(pd, df):
        with pandas.option_context(*option):
            return repr(df[["i", "f"]]), df[["i", "f"]]._repr_html_(), repr(df.f)

    check(program, LONG, native=None)


def test_printing_a_long_frame_does_not_compute_it():
    with craton.option_context(small_rows=0):
        frame = craton.pandas.DataFrame(LONG)
        chosen = frame[frame.i > 1]
        assert len(repr(chosen)) > 100
        assert len(repr(chosen.f)) > 100
        assert len(chosen._repr_html_()) > 100
        assert is_lazy(chosen)


def _info(df, **kwargs):
    import io

    sink = io.StringIO()
    df.info(buf=sink, **kwargs)
    return sink.getvalue().replace("class 'craton.pandas", "class 'pandas")


@pytest.mark.parametrize(
    "kwargs", [{}, {"verbose": False}, {"show_counts": False}, {"memory_usage": False}, {"max_cols": 1}], ids=str
)
@pytest.mark.parametrize("kind", LONGS)
def test_info(kind, kwargs):
    check(lambda pd, df: _info(df, **kwargs), LONGS[kind], native=None)


@pytest.mark.parametrize("kind", LONGS)
def test_memory_usage(kind):
    check(
        lambda pd, df: (df.memory_usage(), df.memory_usage(index=False), df.iloc[:, 0].memory_usage()),
        LONGS[kind],
        native=None,
    )


def test_info_of_numbers_does_not_compute():
    with craton.option_context(small_rows=0):
        frame = craton.pandas.DataFrame(LONG[["i", "f", "t"]])
        chosen = frame.assign(k=1)
        assert "k       1000 non-null   int64" in _info(chosen)
        assert is_lazy(chosen)


#: Attributes that are accessors, whose classes are Craton's own.
ACCESSORS = ("cat", "dt", "list", "sparse", "str", "struct")


@pytest.mark.parametrize("cls", [pandas.DataFrame, pandas.Series])
def test_members_have_the_docstrings_of_pandas(cls: type) -> None:
    ours = getattr(craton.pandas, cls.__name__)
    for name in [name for name in dir(cls) if not name.startswith("_") and name not in ACCESSORS]:
        member = inspect.getattr_static(cls, name)
        assert inspect.getattr_static(ours, name).__doc__ == member.__doc__, name
