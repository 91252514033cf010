"""Generates random tables of all dtypes, with missing values, ties, several kinds of row labels, and none to thousands of rows.

Most floats are multiples of a quarter. Their sums are exact in any order of additions, so results can be compared exactly.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.fuzz.programs import Column, Table


@dataclass(frozen=True, slots=True)
class ValueKind:
    """The values of a dtype.

    Parameters
    ----------
    family
        The family by which operations are chosen: number, text, time, span, bool, category, object.
    values
        The values to draw from, as text.
    missing
        The missing value, as text; empty if the dtype has none.
    """

    family: str
    values: tuple[str, ...]
    missing: str = ""


_INTS = tuple(map(str, range(-4, 8)))
_UINTS = tuple(map(str, range(8)))
_FLOATS = ("0.0", "0.5", "1.5", "-2.25", "3.0", "-0.75", "4.25", "10.0", "1.0", "2.0", "-1.0")
_TEXTS = ('"a"', '"b"', '"ab"', '"B"', '""', '"é"', '"a b"', '"10"', '"zz"', '"A-b"', '" c "', '"a"', '"b"', '"2.5"')
_TIMES = tuple(
    f'"{text}"'
    for text in (
        *("1970-01-01", "2000-02-29 12:30", "2020-12-31 23:59:59", "1999-01-01", "2020-01-01 00:00:01"),
        *("2024-01-31", "2024-03-31 02:30", "2020-12-31", "2000-02-29 12:30"),
    )
)
_SPANS = tuple(f'"{text}"' for text in ("0s", "1D", "-2h", "36h", "90s", "-1D", "1D"))

KINDS: dict[str, ValueKind] = {
    "int64": ValueKind("number", (*_INTS, "100", "-50")),
    "int8": ValueKind("number", _INTS),
    "int16": ValueKind("number", _INTS),
    "int32": ValueKind("number", _INTS),
    "uint8": ValueKind("number", _UINTS),
    "uint16": ValueKind("number", _UINTS),
    "uint32": ValueKind("number", _UINTS),
    "uint64": ValueKind("number", _UINTS),
    "float64": ValueKind("number", _FLOATS, "np.nan"),
    "float32": ValueKind("number", _FLOATS, "np.nan"),
    "bool": ValueKind("bool", ("True", "False")),
    "object": ValueKind("text", _TEXTS, "None"),
    "str": ValueKind("text", _TEXTS, "None"),
    "string[python]": ValueKind("text", _TEXTS, "None"),
    "string[pyarrow]": ValueKind("text", _TEXTS, "None"),
    "large_string[pyarrow]": ValueKind("text", _TEXTS, "None"),
    "Int64": ValueKind("number", _INTS, "pd.NA"),
    "Int8": ValueKind("number", _INTS, "pd.NA"),
    "UInt32": ValueKind("number", _UINTS, "pd.NA"),
    "Float64": ValueKind("number", _FLOATS, "pd.NA"),
    "Float32": ValueKind("number", _FLOATS, "pd.NA"),
    "boolean": ValueKind("bool", ("True", "False"), "pd.NA"),
    "int64[pyarrow]": ValueKind("number", _INTS, "None"),
    "double[pyarrow]": ValueKind("number", _FLOATS, "None"),
    "bool[pyarrow]": ValueKind("bool", ("True", "False"), "None"),
    "timestamp[us][pyarrow]": ValueKind("time", tuple(f"pandas.Timestamp({text})" for text in _TIMES), "None"),
    "datetime64[s]": ValueKind("time", _TIMES, "None"),
    "datetime64[ms]": ValueKind("time", _TIMES, "None"),
    "datetime64[us]": ValueKind("time", _TIMES, "None"),
    "datetime64[ns]": ValueKind("time", _TIMES, "None"),
    "datetime64[us, UTC]": ValueKind("time", _TIMES, "None"),
    "datetime64[ns, Europe/Paris]": ValueKind("time", tuple(t for t in _TIMES if "03-31" not in t), "None"),
    "timedelta64[s]": ValueKind("span", _SPANS, "None"),
    "timedelta64[us]": ValueKind("span", _SPANS, "None"),
    "timedelta64[ns]": ValueKind("span", _SPANS, "None"),
    'categories=["z", "a", "b", "unused"]': ValueKind("category", ('"a"', '"b"', '"z"'), "None"),
    'categories=["b", "unused", "z", "a"]': ValueKind("category", ('"a"', '"b"', '"z"'), "None"),
    'categories=["c", "a"]': ValueKind("category", ('"a"', '"c"'), "None"),
    'categories=["lo", "mid", "hi"], ordered=True': ValueKind("category", ('"lo"', '"mid"', '"hi"'), "None"),
    "categories=[3, 1, 2]": ValueKind("category", ("1", "2", "3"), "None"),
    "period[M]": ValueKind("object", ('"2020-01"', '"1999-12"', '"2024-02"'), "None"),
    "interval[float64, right]": ValueKind("object", ("pandas.Interval(0.0, 1.0)", "pandas.Interval(1.0, 2.5)"), "None"),
}
#: Values that are drawn rarely.
RARE: dict[str, tuple[str, ...]] = {
    "int64": ("9007199254740993", "-1099511627776", "9007199254740992", "1152921504606846977", "9223372036854775807"),
    "float64": ("np.inf", "-np.inf", "-0.0", "0.1"),
    "float32": ("np.inf", "-0.0"),
    "uint64": ("18446744073709551615", "9007199254740993"),
    "int8": ("127", "-128"),
    "int16": ("32767", "-32768"),
    "int32": ("2147483647", "-2147483648"),
    "uint8": ("255", "200"),
    "uint16": ("65535",),
    "uint32": ("4294967295",),
    "double[pyarrow]": ("np.nan", "np.nan", "np.inf", "-0.0"),
    "Int64": ("9007199254740993", "1152921504606846977"),
    "Int8": ("127", "-128"),
    "UInt32": ("4294967295",),
    "str": ('"ß"', '"line\\nbreak"', '"İ"'),
}
#: Values of columns of Python objects of several types.
MIXED = ("1", '"a"', "None", "2.5", "True", '"b"', "datetime.date(2020, 1, 2)")
#: Python objects that files store as values of one type, and that pandas reads as objects again.
STORED = (
    ("True", "False", "None"),
    ("datetime.date(2020, 1, 2)", "datetime.date(1999, 12, 31)", "None"),
    ("datetime.date(2020, 1, 2)", "datetime.date(2020, 1, 3)"),
)
COMMON = ("int64", "float64", "str", "bool", "datetime64[us]", "datetime64[ns]", "object", "int64", "float64", "str")
NAMES = ('"k"', '"x"', '"y"', '"g"', '"s"', '"t"', '"v"', '"w"')
ODD_NAMES = ('"a b"', "0", '"index"', '"level_0"', '"count"', '"x_y"', '""', '"__row__"', '"value"', "None", '"size"')


def table(rng: random.Random, name: str, like: Table | None = None, sources: tuple[str, ...] = ("memory",)) -> Table:
    """Generate a random table.

    Parameters
    ----------
    rng
        The source of all random choices.
    name
        The name of its variable.
    like
        A table whose columns some of the new columns resemble, so that the two can be joined.
    sources
        The possible sources: memory, parquet, csv.
    """
    rows = _rows(rng)
    grow = None
    if rows > 100:
        grow, rows = (rng.randrange(100), rows), rng.randint(5, 40)
    columns: list[Column] = []
    used: set[str] = set()
    if like is not None:
        for column in like.columns:
            if rng.random() < 0.6:
                columns.append(_matching_column(rng, column, rows))
                used.add(column.name)
    while len(columns) < rng.randint(2, 6):
        label = rng.choice(NAMES if rng.random() < 0.93 else ODD_NAMES)
        if label not in used:
            used.add(label)
            columns.append(_column(rng, label, rows))
    source = rng.choice(sources)
    if source == "csv" or grow is not None:
        index: tuple[Column, ...] = ()
    else:
        index = _index(rng, rows)
    if source != "memory":
        columns = [_for_files(rng, column, rows, used) for column in columns]
    return Table(name, tuple(columns), index, grow, source, rows)


def _rows(rng: random.Random) -> int:
    drawn = rng.random()
    if drawn < 0.03:
        return 0
    if drawn < 0.06:
        return 1
    if drawn < 0.30:
        return rng.randint(2, 8)
    if drawn < 0.96:
        return rng.randint(9, 60)
    return rng.choice([4095, 4096, 4097, 5000, 7000, 10_000])


def _column(rng: random.Random, label: str, rows: int) -> Column:
    if rng.random() < 0.03:
        return Column(label, "object", tuple(rng.choice(MIXED) for _ in range(rows)))
    if label in ('"k"', '"g"') and rng.random() < 0.7:
        dtype = rng.choice(["int64", "str", "object", "Int64", *KINDS][: rng.choice([3, 45])])
        few = rng.sample(list(KINDS[dtype].values), min(len(KINDS[dtype].values), rng.choice([1, 2, 3, 4])))
        return Column(label, dtype, _values(rng, dtype, tuple(few), rows))
    dtype = rng.choice(COMMON if rng.random() < 0.6 else tuple(KINDS))
    values = KINDS[dtype].values
    if rng.random() < 0.06:
        values = values[:1]
    return Column(label, dtype, _values(rng, dtype, values, rows))


def _values(rng: random.Random, dtype: str, values: tuple[str, ...], rows: int) -> tuple[str, ...]:
    kind = KINDS[dtype]
    share = rng.choice([0.0, 0.1, 0.1, 0.3, 1.0 if rng.random() < 0.1 else 0.2]) if kind.missing else 0.0
    rare = RARE.get(dtype, ()) if rng.random() < 0.12 else ()
    found = []
    for _ in range(rows):
        if share and rng.random() < share:
            found.append(kind.missing)
        elif rare and rng.random() < 0.1:
            found.append(rng.choice(rare))
        else:
            found.append(rng.choice(values))
    if rng.random() < 0.15 and not share:
        found.sort(key=lambda text: (len(text), text))
    return tuple(found)


def _matching_column(rng: random.Random, column: Column, rows: int) -> Column:
    """A column with the name, the dtype and values of another column, so that joins find matches."""
    pool = tuple(dict.fromkeys(column.values)) or ("1",)
    if not column.values:
        return _column(rng, column.name, rows)
    return Column(column.name, column.dtype, tuple(rng.choice(pool) for _ in range(rows)))


def _for_files(rng: random.Random, column: Column, rows: int, used: set[str]) -> Column:
    """A column that files can store: its label is text, and its values are of one type."""
    label = column.name
    if not label.startswith('"'):
        label = next(f'"c{i}"' for i in range(99) if f'"c{i}"' not in used)
        used.add(label)
    carried = column.dtype.startswith(("period", "interval"))
    if carried or (column.dtype == "object" and any(not text.startswith(('"', "None")) for text in column.values)):
        stored = rng.choice(STORED)
        return Column(label, "object", tuple(rng.choice(stored) for _ in range(rows)))
    return Column(label, column.dtype, column.values)


def _index(rng: random.Random, rows: int) -> tuple[Column, ...]:
    drawn = rng.random()
    name = rng.choice(["None", "None", '"i"', '"k"'])
    if drawn < 0.6:
        return ()
    if drawn < 0.66:
        return (Column(name, "range", (str(rng.randint(-3, 5)), rng.choice(["1", "2", "-1", "3"]))),)
    if drawn < 0.75:
        return (Column(name, "int64", tuple(str(rng.randint(-3, max(3, rows // 2))) for _ in range(rows))),)
    if drawn < 0.82:
        return (Column(name, "str", tuple(rng.choice(_TEXTS) for _ in range(rows))),)
    if drawn < 0.86:
        return (Column(name, "int64", tuple(map(str, rng.sample(range(rows * 2), rows)))),)
    if drawn < 0.90:
        return (Column(name, "datetime64[ns]", tuple(rng.choice(_TIMES) for _ in range(rows))),)
    if drawn < 0.93:
        return (Column(name, "dates", ('"2020-01-01"', rng.choice(['"D"', '"h"', '"MS"']))),)
    if drawn < 0.95:
        return (Column(name, "float64", tuple(rng.choice([*_FLOATS, "np.nan"]) for _ in range(rows))),)
    return (
        Column(rng.choice(["None", '"one"']), "int64", tuple(rng.choice(_UINTS[:4]) for _ in range(rows))),
        Column('"two"', "str", tuple(rng.choice(_TEXTS[:6]) for _ in range(rows))),
    )
