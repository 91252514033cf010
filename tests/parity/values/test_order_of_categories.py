"""Unordered categories in another order: pandas takes the dtypes for equal, but the codes differ. Programs that meet both."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import craton
import craton.pandas as cpd
from tests.fuzz.compare import difference

ABC, CBA = list("abc"), list("cba")
ROWS = 60

Program = Callable[[Any, Any, Any], Any]
#: Programs over two columns of one frame whose categories are `abc` and `cba`, and the module.
PROGRAMS: dict[str, Program] = {
    "rename": lambda m, one, other: one.cat.rename_categories(CBA),
    "rename by dict": lambda m, one, other: one.cat.rename_categories({"a": "c", "c": "a"}),
    "reorder": lambda m, one, other: one.cat.reorder_categories(CBA),
    "set": lambda m, one, other: one.cat.set_categories(CBA),
    "set, renamed": lambda m, one, other: one.cat.set_categories(CBA, rename=True),
    "astype": lambda m, one, other: one.astype(other.dtype),
    "astype of a dtype": lambda m, one, other: one.astype(pd.CategoricalDtype(CBA)),
    "astype and back": lambda m, one, other: one.astype(other.dtype).astype(one.dtype),
    "texts and back": lambda m, one, other: one.astype(str).astype(pd.CategoricalDtype(CBA)),
    "concat": lambda m, one, other: m.concat([one, other]),
    "concat of frames": lambda m, one, other: m.concat([one.to_frame("x"), other.to_frame("x")], ignore_index=True),
    "equal": lambda m, one, other: one == other,
    "unequal": lambda m, one, other: one != other,
    "where": lambda m, one, other: one.where(one.notna(), other),
    "mask": lambda m, one, other: one.mask(other == "a", other),
    "fillna": lambda m, one, other: one.fillna(other),
    "combine_first": lambda m, one, other: one.combine_first(other),
    "map": lambda m, one, other: one.map({"a": "c", "b": "b", "c": "a"}),
    "map of a series": lambda m, one, other: one.map(pd.Series(pd.Categorical(CBA, CBA), index=ABC)),
    "isin": lambda m, one, other: one.isin(other.drop_duplicates()),
    "equals": lambda m, one, other: (one.equals(other), one.astype(other.dtype).equals(one)),
    "merge": lambda m, one, other: m.merge(
        one.to_frame("k").assign(n=range(len(one))), other.drop_duplicates().to_frame("k").assign(z=1), on="k"
    ),
    "merge of unlike names": lambda m, one, other: m.merge(
        one.to_frame("k"), other.drop_duplicates().to_frame("j").assign(z=[3, 1, 2, 0][: other.nunique(dropna=False)]),
        left_on="k", right_on="j", how="left",
    ),
    "group": lambda m, one, other: m.DataFrame({"k": one, "v": range(len(one))}).groupby("k", observed=False)["v"].sum(),
    "group by other order": lambda m, one, other: m.DataFrame({"k": one.astype(other.dtype), "v": range(len(one))})
    .groupby("k", observed=False)["v"].sum(),
    "codes": lambda m, one, other: (one.cat.codes, other.cat.codes, one.astype(other.dtype).cat.codes),
    "sort": lambda m, one, other: (one.sort_values(), one.astype(other.dtype).sort_values()),
    "value_counts": lambda m, one, other: one.astype(other.dtype).value_counts(sort=False),
    "labels": lambda m, one, other: m.Series(range(len(one)), index=pd.Index(one.astype(other.dtype))).sort_index(),
    "set_index": lambda m, one, other: one.to_frame("k").assign(v=1).astype({"k": other.dtype}).set_index("k").sort_index(),
    "unique": lambda m, one, other: one.astype(other.dtype).unique(),
    "assigned": lambda m, one, other: _assigned(one, other),
    "column set": lambda m, one, other: one.to_frame("x").assign(x=other),
    "apply": lambda m, one, other: m.DataFrame({"g": np.arange(len(one)) % 2, "x": one})
    .groupby("g")["x"].apply(lambda part: part.astype(other.dtype) if len(part) else part),
    "pivot": lambda m, one, other: m.DataFrame({"a": one, "b": other, "v": range(len(one))})
    .pivot_table(index="a", columns="b", values="v", aggfunc="sum", observed=False),
    "crosstab": lambda m, one, other: m.crosstab(one, other),
    "dummies": lambda m, one, other: m.get_dummies(one.astype(other.dtype)),
    "factorize": lambda m, one, other: one.astype(other.dtype).factorize(),
    "shift": lambda m, one, other: one.astype(other.dtype).shift(1),
    "reindex": lambda m, one, other: one.astype(other.dtype).reindex(range(0, 80, 3)),
    "update": lambda m, one, other: _updated(one, other),
    "min": lambda m, one, other: (one.astype(pd.CategoricalDtype(CBA, ordered=True)).min(), one.cat.as_ordered().max()),
    "mode": lambda m, one, other: one.astype(other.dtype).mode(),
    "melt": lambda m, one, other: _both(m, one, other).melt(id_vars="n"),
    "stack": lambda m, one, other: _both(m, one, other)[["one", "other"]].stack(),
    "rows": lambda m, one, other: [list(row) for _, row in _both(m, one, other).head(9).iterrows()],
    "one row": lambda m, one, other: (_both(m, one, other).iloc[4], _both(m, one, other).loc[5, ["one", "other"]]),
    "values": lambda m, one, other: _both(m, one, other)[["one", "other"]].to_numpy(),
    "two keys": lambda m, one, other: _both(m, one, other).groupby(["one", "other"], observed=True)["n"].sum(),
    "duplicates": lambda m, one, other: _both(m, one, other).drop_duplicates(["one", "other"]),
    "frames concatenated": lambda m, one, other: m.concat(
        [_both(m, one, other), _both(m, other, one).rename(columns={"one": "other", "other": "one"})]
    ),
    "frames concatenated, crossed": lambda m, one, other: m.concat([_both(m, one, other), _both(m, other, one)]),
    "frame where": lambda m, one, other: _both(m, one, other).where(one.notna(), _both(m, other, one)),
    "frame combined": lambda m, one, other: _both(m, one, other).combine_first(_both(m, other, one)),
    "frame equals": lambda m, one, other: _both(m, one, other).equals(_both(m, one.astype(other.dtype), other)),
    "several columns set": lambda m, one, other: _columns_set(m, one, other),
    "merge on both": lambda m, one, other: _both(m, one, other).merge(
        _both(m, other, one).drop_duplicates(["one", "other"]), on=["one", "other"], how="left"
    ),
    "joined by labels": lambda m, one, other: _both(m, one, other).set_index("one").join(
        m.DataFrame({"k": pd.Categorical(CBA, CBA), "z": [1, 2, 3]}).set_index("k"), how="left"
    ),
    "exploded": lambda m, one, other: _both(m, one.astype(other.dtype), other).assign(l=[[1, 2]] * len(one)).explode("l"),
    "applied by column": lambda m, one, other: _both(m, one, other)[["one", "other"]].apply(lambda c: c.cat.codes.sum()),
    "pickled": lambda m, one, other: pickle.loads(pickle.dumps(one.cat.rename_categories(CBA))),
    "copied": lambda m, one, other: one.cat.rename_categories(CBA).copy().iloc[::-1],
    "several renames": lambda m, one, other: one.cat.rename_categories(CBA).cat.rename_categories(list("bca")),
    "renamed in a frame": lambda m, one, other: _both(m, one, other).assign(
        one=lambda f: f["one"].cat.rename_categories(CBA), three=lambda f: f["one"].cat.reorder_categories(list("bca"))
    ),
    "renamed labels": lambda m, one, other: m.Series(range(len(one)), index=pd.CategoricalIndex(one).rename_categories(CBA)),
    "parts by function": lambda m, one, other: _both(m, one, other)
    .groupby(lambda n: n % 3)[["one", "n"]].apply(lambda f: f.assign(one=f["one"].cat.reorder_categories(CBA if f["n"].iloc[0] else ABC))),
    "to_list": lambda m, one, other: one.cat.rename_categories(CBA).to_list(),
}  # fmt: skip


def _assigned(one: Any, other: Any) -> Any:
    one = one.copy()
    one.loc[one == "a"] = other[one == "a"]
    return one


def _both(m: Any, one: Any, other: Any) -> Any:
    return m.DataFrame({"one": one, "other": other, "n": range(len(one))})


def _columns_set(m: Any, one: Any, other: Any) -> Any:
    frame, crossed = _both(m, one, other), _both(m, other, one)
    frame.loc[frame["n"] % 3 == 0, ["one", "other"]] = crossed
    frame.loc[frame["n"] % 5 == 0, "one"] = crossed["one"]
    return frame


def _updated(one: Any, other: Any) -> Any:
    one = one.copy()
    one.update(other)
    return one


def _looked(value: Any, look: str) -> None:
    """Look at a column before the program goes on."""
    if look == "repr":
        repr(value)
    elif look == "values":
        _ = value.array
    elif look == "codes":
        _ = value.cat.codes.sum()


@pytest.mark.parametrize("look", ["no", "repr", "values", "codes"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs(program: str, look: str) -> None:
    rng = np.random.default_rng(len(program))

    def run(module: Any) -> Any:
        frame = module.DataFrame({"one": texts[0], "other": texts[1], "n": range(ROWS)})
        frame = frame[frame["n"] >= 0]
        one, other = frame["one"].astype(pd.CategoricalDtype(ABC)), frame["other"].astype(pd.CategoricalDtype(CBA))
        for column in (one, other):
            _looked(column, look)
        try:
            found = PROGRAMS[program](module, one, other)
        except Exception as error:
            return type(error), str(error)
        for part in found if isinstance(found, tuple) else (found,):
            _looked(part, look) if isinstance(part, pd.Series) and isinstance(part.dtype, pd.CategoricalDtype) else None
        return found

    texts = [rng.choice(np.array([*ABC, None], object), ROWS) for _ in range(2)]
    expected = run(pd)
    with craton.option_context(small_rows=0):
        got = run(cpd)
        assert (found := difference(expected, got)) is None, found
        for one, other in zip(_parts(expected), _parts(got), strict=True):
            if isinstance(getattr(one, "dtype", None), pd.CategoricalDtype):
                assert list(one.dtype.categories) == list(other.dtype.categories)
                assert list(one) == list(other) or list(map(str, one)) == list(map(str, other))


def _parts(found: Any) -> list[Any]:
    if isinstance(found, tuple):
        return list(found)
    return [found[column] for column in found.columns] if isinstance(found, pd.DataFrame) else [found]
