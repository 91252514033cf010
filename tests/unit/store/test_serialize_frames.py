"""Frames, tables and matrices of other libraries survive a round trip: equal, without copying, and changeable."""

from __future__ import annotations

import datetime as dt
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pandas.testing import assert_frame_equal, assert_index_equal, assert_series_equal

import craton
from craton.serialize import decode, encode

ROWS = 1000


def read_back(obj, *, copy=False):
    """Return the object after a round trip through a container, which is read-only memory."""
    return craton.deserialize(craton.serialize(obj), copy=copy)


def copied_bytes(obj) -> int:
    """Return the total size of an encoded object's buffers, in bytes."""
    return sum(buffer.nbytes for buffer in encode(obj).buffers)


def addresses(parts) -> list[tuple[int, int]]:
    return [(np.frombuffer(b, "u1").ctypes.data, b.nbytes) for b in parts.buffers if b.nbytes]


# ---- pandas ----

N = np.arange(ROWS)
COLUMNS = {
    "int": lambda: N.astype("i8"),
    "float": lambda: N * 0.5,
    "bool": lambda: N % 2 == 0,
    "complex": lambda: N * 1j,
    "object": lambda: np.array([{"a": int(i)} for i in N], dtype=object),
    "datetime": lambda: pd.date_range("2020", periods=ROWS, freq="h"),
    "zoned": lambda: pd.date_range("2020", periods=ROWS, freq="h", tz="Europe/Paris"),
    "timedelta": lambda: pd.to_timedelta(N, unit="s"),
    "period": lambda: pd.period_range("2020", periods=ROWS, freq="D"),
    "interval": lambda: pd.interval_range(0, ROWS),
    "categorical": lambda: pd.Categorical(np.array(["a", "b", "c"])[N % 3], categories=["c", "b", "a"], ordered=True),
    "str": lambda: pd.array([f"text {i}" if i % 5 else None for i in N], dtype="str"),
    "string[python]": lambda: pd.array([f"text {i}" for i in N], dtype="string[python]"),
    "string[pyarrow]": lambda: pd.array([f"text {i}" for i in N], dtype="string[pyarrow]"),
    "Int64": lambda: pd.array([i if i % 7 else None for i in N.tolist()], dtype="Int64"),
    "Float32": lambda: pd.array([i if i % 7 else None for i in N.tolist()], dtype="Float32"),
    "boolean": lambda: pd.array([bool(i % 2) if i % 7 else None for i in N.tolist()], dtype="boolean"),
    "arrow int": lambda: pd.array([i if i % 7 else None for i in N.tolist()], dtype="int32[pyarrow]"),
    "arrow list": lambda: pd.array([[i] for i in N.tolist()], dtype=pd.ArrowDtype(pa.list_(pa.int64()))),
    "arrow time": lambda: pd.array([dt.time(i % 24) for i in N.tolist()], dtype=pd.ArrowDtype(pa.time64("us"))),
    "sparse": lambda: pd.arrays.SparseArray(np.where(N % 10 == 0, N, 0)),
    "sparse nan": lambda: pd.arrays.SparseArray(np.where(N % 10 == 0, N, np.nan)),
}


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("name", COLUMNS)
def test_columns(name: str, copy: bool) -> None:
    values = COLUMNS[name]()
    series = pd.Series(values, name="s", index=pd.Index(N * 2, name="i"))
    back = read_back(series, copy=copy)
    assert_series_equal(back, series, check_flags=True, check_freq=True)
    frame = pd.DataFrame({"a": values, "b": values, "c": 1})
    back = read_back(frame, copy=copy)
    assert_frame_equal(back, frame)
    assert (back.dtypes == frame.dtypes).all()
    index = pd.Index(values, name="index")
    back = read_back(index, copy=copy)
    if name != "object":
        assert_index_equal(back, index, exact=True)
        assert getattr(back, "freq", None) == getattr(index, "freq", None)
    alone = read_back(series.array, copy=copy)
    assert type(alone) is type(series.array)
    assert_series_equal(pd.Series(alone), pd.Series(series.array))


@pytest.mark.parametrize("name", [name for name in COLUMNS if name not in ("object", "string[python]")])
def test_the_memory_of_columns_is_not_copied(name: str) -> None:
    frame = pd.DataFrame({"a": COLUMNS[name]()})
    parts = encode(frame)
    back = decode(parts.meta, parts.buffers)
    # The decoded frame refers to the original memory, so encoding it again must give the same addresses.
    again = encode(back)
    assert addresses(again) == addresses(parts)
    assert len(parts.meta) < 4000
    assert sum(size for _, size in addresses(parts)) >= ROWS / 8


def test_numpy_blocks_are_the_frames_own() -> None:
    frame = pd.DataFrame({"a": N, "b": N + 1, "c": N * 0.5})
    parts = encode(frame)
    back = decode(parts.meta, parts.buffers)
    for name in "abc":
        assert np.shares_memory(back[name].to_numpy(), frame[name].to_numpy())


def test_labels_attrs_and_flags() -> None:
    columns = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["x", None])
    frame = pd.DataFrame(np.ones((3, 2)), columns=columns, index=pd.date_range("2020", periods=3, freq="MS", name="t"))
    frame.attrs["note"] = {"k": np.arange(3)}
    frame = frame.set_flags(allows_duplicate_labels=False)
    back = read_back(frame)
    assert_frame_equal(back, frame, check_freq=True, check_flags=True)
    assert back.index.freq == frame.index.freq
    assert back.attrs["note"]["k"].tolist() == [0, 1, 2]
    assert back.columns.names == ["x", None]
    for index in (pd.RangeIndex(1, 9, 3, name="r"), pd.MultiIndex.from_product([[1, 2], ["a", "b"]]), columns):
        assert_index_equal(read_back(index), index, exact=True)


def test_empty_frames() -> None:
    for frame in (
        pd.DataFrame(),
        pd.DataFrame(index=[1, 2]),
        pd.DataFrame({"a": []}),
        pd.Series([], dtype="f8").to_frame(),
    ):
        assert_frame_equal(read_back(frame), frame)


class Subclass(pd.DataFrame):
    _metadata = ["extra"]  # noqa: RUF012

    @property
    def _constructor(self):
        return Subclass


def test_subclasses() -> None:
    frame = Subclass({"a": [1, 2]})
    frame.extra = "kept"
    back = read_back(frame)
    assert (type(back), back.extra) == (Subclass, "kept")


def test_other_pandas_objects() -> None:
    for obj in (
        pd.Timestamp("2020", tz="UTC"),
        pd.Timedelta(1, "s"),
        pd.Period("2020Q1"),
        pd.NA,
        pd.NaT,
        pd.Interval(0, 1),
        pd.offsets.MonthEnd(2),
        pd.CategoricalDtype(["a"], ordered=True),
    ):
        back = read_back(obj)
        assert back is obj or back == obj
        assert type(back) is type(obj)
    frame = pd.DataFrame({"a": [1, 1, 2], "b": [1.0, 2.0, 3.0]})
    assert_frame_equal(read_back(frame.groupby("a")).sum(), frame.groupby("a").sum())


def changed(frame: pd.DataFrame, change) -> pd.DataFrame:
    result = change(frame)
    return frame if result is None else result


def setting(statement: str):
    """Return a function that runs a statement on a frame ``df``."""
    code = compile(statement, statement, "exec")

    def change(df):
        exec(code, {"df": df, "np": np, "pd": pd})

    return change


CHANGES = [
    "df.loc[0, 'i'] = 100",
    "df.iloc[1, 1] = 9.5",
    "df.at[2, 'f'] = -1.0",
    "df.iat[2, 0] = -1",
    "df.loc[0, 's'] = 'changed'",
    "df.loc[0, 'I'] = None",
    "df.loc[0, 't'] = pd.Timestamp('1999')",
    "df.loc[0, 'z'] = pd.Timestamp('1999', tz='UTC')",
    "df.loc[0, 'c'] = 'b'",
    "df.loc[0, 'p'] = pd.Period('1999-01-01', 'D')",
    "df.loc[0, 'a'] = 77",
    "df.loc[0, 'o'] = None",
    "df['i'] += 1",
    "df['i'] = 5",
    "df['new'] = df['i'] * 2",
    "df[['i', 'f']] = 0",
    "df[df['i'] > 2] = df[df['i'] > 2]",
    "df.loc[df['i'] > 2, 'f'] = np.nan",
    "df.loc[:, 'i'] = 3",
    "df.iloc[:, 0] = np.arange(len(df))",
    "df.loc[len(df)] = df.iloc[0]",
    "df.fillna({'f': 0.0, 'I': 5}, inplace=True)",
    "df.replace({'i': {1: 2}}, inplace=True)",
    "df.sort_values('f', ascending=False, inplace=True)",
    "df.sort_index(ascending=False, inplace=True)",
    "df.drop(columns=['i'], inplace=True)",
    "df.drop_duplicates('b', inplace=True)",
    "df.reset_index(inplace=True)",
    "df.set_index('i', inplace=True)",
    "df.rename(columns={'i': 'j'}, inplace=True)",
    "df.insert(0, 'first', 1)",
    "df.pop('i')",
    "del df['i']",
    "df.update(pd.DataFrame({'f': [9.0]}))",
    "df.eval('q = i + f', inplace=True)",
    "df.query('i > 2', inplace=True)",
    "df.ffill(inplace=True)",
    "df.dropna(inplace=True)",
    "x = df[['i', 'j']]; x *= 2; df[['i', 'j']] = x",
    "x = df[['f']]; x.clip(0, 2, inplace=True); df['f'] = x['f']",
    "x = df[['f']]; x.interpolate(inplace=True); df['f'] = x['f']",
    "x = df[['i', 'j']]; x.where(x > 2, 0, inplace=True); df[['i', 'j']] = x",
    "x = df[['i', 'j']]; x.mask(x > 2, 0, inplace=True); df[['i', 'j']] = x",
    "x = df['f']; x[0] = 5.0; x.iloc[1:3] = 7.0; df['f'] = x",
    "x = df['f'].copy(deep=False); x[0] = 5.0; df['x'] = x",
    "x = df['f'].array; y = x.copy(); y[0] = 1.0; df['x'] = y",
    "x = df['I']; x[1] = 5; df['I'] = x",
    "x = df['f']; x += 1; x **= 2; df['f'] = x",
    "x = df['b']; x |= True; df['b'] = x",
    "x = df['f']; x.update(pd.Series([5.0])); df['f'] = x",
    "df.iloc[0] = df.iloc[1]",
    "df.index = df.index + 1",
    "df.columns = [c.upper() for c in df.columns]",
]
COMPUTED = {
    "sum": lambda df: df[["i", "f", "I", "a"]].sum(),
    "median": lambda df: df[["i", "f"]].median(),
    "quantile": lambda df: df["f"].quantile([0.1, 0.9]),
    "group": lambda df: df.groupby("c", observed=True)[["i", "f", "I"]].agg(["sum", "min", "median"]),
    "group text": lambda df: df.groupby("s")["i"].sum(),
    "transform": lambda df: df.groupby("b")["f"].transform("cumsum"),
    "rank": lambda df: df[["f", "i"]].rank(),
    "sort": lambda df: df.sort_values(["s", "i"]),
    "merge": lambda df: df.merge(df, on="i"),
    "merge text": lambda df: df.merge(df, on="s"),
    "concat": lambda df: pd.concat([df, df]),
    "reindex": lambda df: df.reindex([3, 1, 100]),
    "take": lambda df: df.iloc[[1, 0]],
    "mask": lambda df: df[df["b"]],
    "rolling": lambda df: df["f"].rolling(2).mean(),
    "ewm": lambda df: df["f"].ewm(2).mean(),
    "cumsum": lambda df: df[["i", "f"]].cumsum(),
    "diff": lambda df: df["t"].diff(),
    "shift": lambda df: df.shift(),
    "pivot": lambda df: df.pivot_table(index="b", columns="c", values="f", observed=True),
    "melt": lambda df: df[["i", "f"]].melt(),
    "stack": lambda df: df[["i", "f"]].stack(),
    "describe": lambda df: df.describe(),
    "unique": lambda df: pd.Series(df["i"].unique()),
    "counts": lambda df: df["s"].value_counts(),
    "isin": lambda df: df["i"].isin([1, 2]),
    "duplicated": lambda df: df["b"].duplicated(),
    "upper": lambda df: df["s"].str.upper(),
    "local": lambda df: df["t"].dt.tz_localize("UTC").dt.month,
    "resample": lambda df: df.set_index("t")["f"].resample("2D").sum(),
    "interpolate": lambda df: df["f"].interpolate(),
    "searchsorted": lambda df: pd.Series(df["i"].searchsorted([2, 3])),
    "cut": lambda df: pd.cut(df["f"], 3),
    "apply": lambda df: df[["i", "f"]].apply(lambda column: column.max()),
    "nlargest": lambda df: df.nlargest(2, "i"),
    "mode": lambda df: df["i"].mode(),
    "factorize": lambda df: pd.Series(df["i"].factorize()[0]),
    "corr": lambda df: df[["i", "f"]].corr(),
    "explode": lambda df: df["o"].explode(),
    "dot": lambda df: df[["i", "j"]].dot([1, 2]),
    "get item": lambda df: pd.Series([df.at[1, "i"], df.loc[1, "f"]]),
    "asof": lambda df: pd.merge_asof(df[["t", "i"]], df[["t", "f"]], on="t"),
    "to_dict": lambda df: pd.Series(df[["i", "s"]].to_dict("list")),
    "deep copy": lambda df: df.copy(deep=True),
}


def mixed() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "i": [1, 2, 3, 4],
            "f": [0.5, None, 2.5, 3.5],
            "j": [4, 3, 2, 1],
            "b": [True, False, True, True],
            "s": ["w", "x", None, "x"],
            "I": pd.array([1, None, 3, 4], dtype="Int64"),
            "t": pd.date_range("2020", periods=4),
            "z": pd.date_range("2020", periods=4, tz="UTC"),
            "c": pd.Categorical(["a", "b", "a", "b"]),
            "p": pd.period_range("2020", periods=4, freq="D"),
            "a": pd.array([1, None, 3, 4], dtype="int64[pyarrow]"),
            "o": pd.Series([[1], "x", None, 3.5], dtype=object),
        }
    )


@pytest.mark.filterwarnings("ignore:The inplace keyword")
@pytest.mark.parametrize("statement", CHANGES)
def test_frames_can_be_changed(statement: str) -> None:
    data = craton.serialize(mixed())
    before = bytes(data)
    for _ in range(2):  # the first change must not affect the second read
        frame, expected = craton.deserialize(data), mixed()
        setting(statement)(frame)
        setting(statement)(expected)
        assert_frame_equal(frame, expected)
        # A second change in place, now to the frame's own copy.
        for one in (frame, expected):
            if "i" in one.columns and len(one):
                one.iloc[0, one.columns.get_loc("i")] = 41
        assert_frame_equal(frame, expected)
    assert bytes(data) == before


@pytest.mark.parametrize("name", COMPUTED)
def test_frames_can_be_computed_with(name: str) -> None:
    frame = read_back(mixed())
    result, expected = COMPUTED[name](frame), COMPUTED[name](mixed())
    (assert_frame_equal if isinstance(expected, pd.DataFrame) else assert_series_equal)(result, expected)


def test_only_the_first_change_copies() -> None:
    frame = read_back(pd.DataFrame({"a": N, "b": N + 1}))
    frame.loc[0, "a"] = 5
    block = frame._mgr.blocks[0].values
    frame.loc[1, "a"] = 6
    assert frame._mgr.blocks[0].values is block
    frame = read_back(pd.DataFrame({"a": N, "b": N + 1}), copy=True)
    block = frame._mgr.blocks[0].values
    frame.loc[1, "a"] = 6
    assert frame._mgr.blocks[0].values is block


def test_lazy_frames_decode_as_their_pickles_do() -> None:
    import craton.pandas as cpd

    lazy = cpd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", None]})
    lazy = lazy[lazy["a"] > 1]
    back = read_back(lazy)
    assert type(back) is type(pickle.loads(pickle.dumps(lazy)))
    assert_frame_equal(pd.DataFrame(back), pd.DataFrame({"a": [2, 3], "b": ["y", None]}, index=[1, 2]))


# ---- Arrow ----


def table() -> pa.Table:
    return pa.table(
        {
            "i": pa.array(range(ROWS), pa.int32()),
            "n": pa.array([i if i % 3 else None for i in range(ROWS)]),
            "s": [f"text {i}" for i in range(ROWS)],
            "v": pa.array([f"text that is longer than twelve {i}" for i in range(ROWS)], pa.string_view()),
            "l": [[i] * (i % 3) for i in range(ROWS)],
            "lv": pa.array([[i] * (i % 3) for i in range(ROWS)], pa.list_view(pa.int64())),
            "t": [{"a": i, "b": None} for i in range(ROWS)],
            "d": pa.array([f"{i % 5}" for i in range(ROWS)]).dictionary_encode(),
            "m": pa.array([[("k", i)] for i in range(ROWS)], pa.map_(pa.string(), pa.int64())),
            "b": [i % 2 == 0 for i in range(ROWS)],
            "x": pa.nulls(ROWS),
            "r": pa.RunEndEncodedArray.from_arrays([ROWS], [7]),
            "u": pa.UnionArray.from_sparse(
                pa.array([0] * ROWS, pa.int8()), [pa.array(range(ROWS)), pa.array(["a"] * ROWS)]
            ),
            "e": pa.array([b"0123456789abcdef"] * ROWS, pa.uuid()),
            "dec": pa.array([None, *range(ROWS - 1)], pa.decimal128(12, 2)),
        }
    ).replace_schema_metadata({"k": "v"})


def test_tables() -> None:
    obj = table()
    for each in (obj, obj.to_batches()[0], pa.concat_tables([obj, obj]), obj.slice(0, 0), obj.schema):
        back = read_back(each)
        assert type(back) is type(each)
        assert back.equals(each, check_metadata=True)
        if hasattr(back, "validate"):
            back.validate(full=True)


@pytest.mark.parametrize("name", table().column_names)
def test_arrow_arrays(name: str) -> None:
    column = table()[name]
    scalars = [] if name in "ru" else [column[5]]  # pyarrow cannot pickle scalars of these types
    for obj in (column, column.chunk(0), column.chunk(0).slice(100, 7), *scalars):
        back = read_back(obj)
        assert type(back) is type(obj)
        assert back.type == obj.type
        assert back.equals(obj)
    parts = encode(column)
    assert addresses(encode(decode(parts.meta, parts.buffers))) == addresses(parts)
    assert addresses(parts) or name == "x"


def test_a_slice_does_not_include_the_whole_array() -> None:
    whole = pa.table({"a": range(100_000), "s": [str(i) for i in range(100_000)]})
    few = whole.slice(500, 10)
    assert sum(buffer.nbytes for buffer in encode(few).buffers) < 4096
    assert read_back(few).equals(few)


def test_a_dictionary_of_many_chunks_is_written_once() -> None:
    words = pa.array([f"word {i}" for i in range(10_000)])
    codes = pa.array(range(100), pa.int32())
    column = pa.chunked_array([pa.DictionaryArray.from_arrays(codes, words)] * 50)
    assert sum(buffer.nbytes for buffer in encode(column).buffers) < 300_000
    assert read_back(column).equals(column)


def test_other_arrow_objects() -> None:
    buffer = read_back(pa.py_buffer(b"abc"))
    assert isinstance(buffer, pa.Buffer)
    assert buffer.to_pybytes() == b"abc"
    assert read_back(pa.scalar(5, pa.int8())) == pa.scalar(5, pa.int8())
    tensor = pa.Tensor.from_numpy(np.arange(6.0).reshape(2, 3), dim_names=["x", "y"])
    back = read_back(tensor)
    assert back.equals(tensor)
    assert back.dim_names == ["x", "y"]


# ---- Polars ----


def polars_frame() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "i": range(ROWS),
            "n": [i if i % 3 else None for i in range(ROWS)],
            "s": [f"text that is longer than twelve {i}" for i in range(ROWS)],
            "l": [[i] * (i % 3) for i in range(ROWS)],
            "t": [{"a": i, "b": str(i)} for i in range(ROWS)],
            "b": [i % 2 == 0 for i in range(ROWS)],
            "x": [None] * ROWS,
            "d": [dt.date(2020, 1, 1)] * ROWS,
            "z": [dt.datetime(2020, 1, 1, tzinfo=dt.UTC)] * ROWS,
            "D": [dt.timedelta(1)] * ROWS,
            "bytes": [b"x"] * ROWS,
        }
    ).with_columns(
        c=pl.col("i").mod(3).cast(pl.String).cast(pl.Categorical),
        e=pl.col("i").mod(3).cast(pl.String).cast(pl.Enum(["0", "1", "2"])),
        a=pl.concat_list("i", "i").list.to_array(2),
        dec=pl.col("i").cast(pl.Decimal(20, 2)),
        time=pl.lit(dt.time(5)),
    )


@pytest.mark.parametrize("name", polars_frame().columns)
def test_polars_series(name: str) -> None:
    series = polars_frame()[name]
    back = read_back(series)
    assert (type(back), back.name, back.dtype) == (pl.Series, name, series.dtype)
    assert back.equals(series, null_equal=True)


def test_polars_frames() -> None:
    frame = polars_frame()
    for obj in (frame, frame.head(0), frame.slice(10, 5), pl.concat([frame, frame], rechunk=False), frame.select("i")):
        back = read_back(obj)
        assert back.schema == obj.schema
        assert back.equals(obj)
    parts = encode(frame.select("i", "n"))
    assert addresses(encode(decode(parts.meta, parts.buffers))) == addresses(parts)
    parted = pl.concat([frame.select("i", "c", "e", "s")] * 2, rechunk=False)
    assert read_back(parted).n_chunks() == parted.n_chunks() == 2
    changed = read_back(frame).with_columns(pl.col("i") + 1)
    assert changed["i"][0] == 1


def test_types_that_arrow_does_not_have() -> None:
    wide = pl.DataFrame({"w": pl.Series([1 << 100, None], dtype=pl.Int128), "i": [1, 2]})
    back = read_back(wide)
    assert back.schema == wide.schema
    assert back.equals(wide)
    things = pl.Series("o", [{"a"}, None, 5], dtype=pl.Object)
    assert read_back(things).to_list() == things.to_list()
    assert read_back(things.to_frame()).schema == {"o": pl.Object}
    assert read_back(pl.DataFrame()).equals(pl.DataFrame())


def test_lazy_polars() -> None:
    lazy = polars_frame().lazy().filter(pl.col("i") > 990).select("i")
    assert read_back(lazy).collect().equals(lazy.collect())
    assert read_back(pl.col("a") + 1).meta.eq(pl.col("a") + 1)
    assert read_back(pl.Int64) == pl.Int64


# ---- SciPy and PyTorch ----


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
@pytest.mark.parametrize("kind", ["matrix", "array"])
def test_sparse(form: str, kind: str) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    dense = np.where(np.random.default_rng(0).random((40, 50)) < 0.1, 1.5, 0)
    obj = getattr(sparse, f"{form}_{kind}")(dense)
    back = read_back(obj)
    assert type(back) is type(obj)
    assert (back.dtype, back.shape) == (obj.dtype, obj.shape)
    assert np.array_equal(back.toarray(), dense)
    assert np.array_equal((back @ np.ones(50)), obj @ np.ones(50))
    if form in ("csr", "csc", "coo", "bsr", "dia"):
        parts = encode(obj)
        assert np.shares_memory(decode(parts.meta, parts.buffers).data, obj.data)


def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.arange(12.0).reshape(3, 4)
    obj = {
        "t": tensor,
        "view": tensor[1:],
        "T": tensor.T,
        "p": torch.nn.Parameter(tensor.clone()),
        "b": torch.ones(3, dtype=torch.bfloat16),
    }
    back = read_back(obj)
    assert all(torch.equal(back[name], obj[name]) and back[name].dtype == obj[name].dtype for name in obj)
    assert type(back["p"]) is torch.nn.Parameter
    back["t"][1, 0] = 100.0
    assert back["view"][0, 0] == 100.0
    assert len(encode(obj).buffers) == 3
