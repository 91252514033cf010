"""Lists of strings, which ``str.split`` and ``str.findall`` return, give pandas' results, before and after a program changes one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

from craton.engine.tiled import TiledEngine, using
from craton.lower.tiled import Settings
from craton.schedule.inline import InlineRunner

SPACES = [chr(point) for point in range(sys.maxunicode + 1) if chr(point).isspace()]
TEXTS: dict[str, list[str | None]] = {
    "usual": ["a b", "", None, "  x  y ", "a", "b a b", "a,b,,c,", ",", "x, y", None, "a b"],
    "no missing": ["a,b", "c", "", "a,,", "aa", "aaa", "a b c d"],
    "missing only": [None, None],
    "empty strings": ["", ""],
    "no rows": [],
    "one": ["é b"],
    "white space": [
        "".join(f"w{space}" for space in SPACES),
        *(f"{space}a{space}b" for space in SPACES),
        "\n",
        "a\u200bb",
    ],
    "engines": ["a1b22\n", "٣ ４", "ß\u0301 a-b", "A_b", "\u00a0a", "a\n"],
}
CALLS: dict[str, Callable[[Any], Any]] = {
    "split": lambda s: s.str.split(),
    "split-space": lambda s: s.str.split(" "),
    "split-comma-1": lambda s: s.str.split(",", n=1),
    "split-space-2": lambda s: s.str.split(" ", n=2),
    "split-0": lambda s: s.str.split(" ", n=0),
    "split-None": lambda s: s.str.split(",", n=None),
    "split-negative": lambda s: s.str.split(",", n=-3),
    "split-literal": lambda s: s.str.split(", "),
    "split-literal-1": lambda s: s.str.split("aa", n=1),
    "split-literal-negative": lambda s: s.str.split("aa", n=-3),
    "split-point": lambda s: s.str.split("."),
    "split-pattern": lambda s: s.str.split("[, ]+"),
    "split-pattern-1": lambda s: s.str.split("[, ]+", n=1),
    "split-word": lambda s: s.str.split(r"\W+"),
    "split-group": lambda s: s.str.split("(,)x?"),
    "split-start": lambda s: s.str.split("^a"),
    "split-end": lambda s: s.str.split("a$"),
    "split-not-regex": lambda s: s.str.split("aa", regex=False),
    "split-regex": lambda s: s.str.split("a", regex=True),
    "split-white-1": lambda s: s.str.split(n=1),
    "rsplit": lambda s: s.str.rsplit(),
    "rsplit-1": lambda s: s.str.rsplit(" ", n=1),
    "rsplit-comma-2": lambda s: s.str.rsplit(",", n=2),
    "rsplit-white-1": lambda s: s.str.rsplit(n=1),
    "rsplit-long": lambda s: s.str.rsplit("aa"),
    "findall": lambda s: s.str.findall("[ab]"),
    "findall-words": lambda s: s.str.findall(r"\w+"),
    "findall-digits": lambda s: s.str.findall(r"\d"),
    "findall-group": lambda s: s.str.findall("(a) ?"),
    "findall-groups": lambda s: s.str.findall("(a)( ?)"),
    "findall-empty": lambda s: s.str.findall("a*"),
    "findall-end": lambda s: s.str.findall("a$"),
    "findall-flags": lambda s: s.str.findall("A", flags=2),
}
READS: dict[str, Callable[[Any], Any]] = {
    "lists": lambda lists: lists,
    "len": lambda lists: lists.str.len(),
    "first": lambda lists: lists.str[0],
    "last": lambda lists: lists.str.get(-1),
    "third": lambda lists: lists.str[2],
    "slice": lambda lists: lists.str[1:],
    "join": lambda lists: lists.str.join("-"),
    "explode": lambda lists: lists.explode(),
    "explode-counts": lambda lists: lists.explode().value_counts().sort_index(),
    "explode-index": lambda lists: lists.explode(ignore_index=True),
    "upper": lambda lists: lists.str.upper(),
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("read", READS)
def test_calls(read: str, name: str) -> None:
    for call in CALLS.values():
        check(lambda pd, s, call=call: READS[read](call(s)), pandas.Series(TEXTS[name], dtype="str"), native=None)


@pytest.mark.parametrize(
    "dtype", ["string", "string[python]", "category", "object", pandas.StringDtype("python", na_value=np.nan)]
)
def test_strings_of_other_dtypes(dtype: Any) -> None:
    data = pandas.Series(TEXTS["usual"], name="t").astype(dtype)
    for read in READS.values():
        check(lambda pd, s, read=read: read(s.str.split(" ")), data, native=None)


USUAL: list[Callable[[Any, Any], Any]] = [
    lambda pd, f: f.assign(w=f["t"].str.split()).explode("w"),
    lambda pd, f: f.assign(w=f["t"].str.split(",")).explode("w", ignore_index=True),
    lambda pd, f: f.assign(w=f["t"].str.split(",")).explode(["w"])[["w", "x"]],
    lambda pd, f: f.assign(w=f["t"].str.split()).explode("w").groupby("w")["x"].sum(),
    lambda pd, f: f["t"].str.split().explode().str.upper().value_counts().sort_index(),
    lambda pd, f: f["t"].str.split().explode().to_frame().groupby("t").size(),
    lambda pd, f: f["t"].str.split().explode().rename("w").dropna().isin(["a"]),
    lambda pd, f: f[f["t"].str.split(" ").str.len() > 1],
    lambda pd, f: f["t"].str.findall(r"\w").str.len(),
    lambda pd, f: f.assign(w=f["t"].str.split(","))[f["x"] > 2].explode("w"),
    lambda pd, f: (
        f.assign(w=f["t"].str.split(",")).sort_values("x", ascending=False, kind="stable").explode("w").head(4)
    ),
    lambda pd, f: f.assign(w=f["t"].str.split(","), v=f["t"].str.split()).explode("w")[["x", "w"]],
    lambda pd, f: f.assign(w=f["t"].str.split(",")).explode("w").query("w == 'b' and x > 1"),
]


def _frame(rows: int = 11) -> pandas.DataFrame:
    texts = pandas.Series((TEXTS["usual"] * (rows // 11 + 1))[:rows], dtype="str")
    return pandas.DataFrame({"t": texts, "x": np.arange(rows) % 5})


@pytest.mark.parametrize("number", range(len(USUAL)))
def test_usual_chains_are_planned(number: int) -> None:
    for frame in (_frame(), _frame().set_index(pandas.Index([3, 3, *range(9)], name="i")), _frame().iloc[::2]):
        check(USUAL[number], frame)
    check(USUAL[number], _frame().set_index(["x", "t"], drop=False).rename_axis(["p", "q"]), native=None)
    engine = TiledEngine(InlineRunner(), settings=Settings(tiles=5, broadcast_bytes=1, collapse_bytes=0), least_bytes=0)
    with using(engine):
        check(USUAL[number], _frame(31))


def test_labels_of_exploded_rows() -> None:
    for texts in (["a", "b"], ["a b", "c"], ["a b"], ["a"]):
        for index in (pandas.RangeIndex(0, 2 * len(texts), 2), pandas.RangeIndex(len(texts)), list("zy")[: len(texts)]):
            frame = pandas.DataFrame({"t": texts, "x": 1.5}, index=index)
            for ignore in (False, True):
                check(lambda pd, f, i=ignore: f["t"].str.split().explode(ignore_index=i), frame)
                check(lambda pd, f, i=ignore: f.assign(w=f["t"].str.split()).explode("w", ignore_index=i), frame)
    days = pandas.DataFrame({"t": ["a b", "c"]}, index=pandas.date_range("2024", periods=2))
    check(lambda pd, f: f["t"].str.split().explode(), days, native=None)
    check(lambda pd, f: f.assign(w=f["t"].str.split()).explode("w"), days, native=None)


def test_wrong_arguments_of_explode() -> None:
    for column in ("q", ["w", "x"], [], None, ["w", "w"], 1.5):
        check(lambda pd, f, c=column: f.assign(w=f["t"].str.split()).explode(c), _frame(), native=None)
    check(lambda pd, f: f.explode("x"), _frame(), native=None)
    check(lambda pd, f: f["t"].explode(), _frame(), native=None)


def test_a_changed_list_is_shared() -> None:
    """A list is one object in all columns that are derived from the call, whatever was computed before."""

    def program(pd: Any, f: Any) -> Any:
        f["w"] = f["t"].str.split()
        lengths = f["w"].str.len()
        few = f[f["x"] > 0].sort_values("x", kind="stable")
        doubled = pd.concat([f, f])
        exploded = f.explode("w")
        other = f[["w"]].copy()
        f.at[0, "w"].append("added")
        few["w"].iloc[0].insert(0, "first")
        return (
            lengths,
            f["w"].str.len(),
            few.explode("w"),
            exploded,
            doubled["w"].str.join(" "),
            other["w"].str[-1],
            f["w"].iloc[0] is other["w"].iloc[0],
            f.explode("w"),
        )

    check(program, _frame(), native=None)


def test_the_text_may_change() -> None:
    def program(pd: Any, f: Any) -> Any:
        words = f["t"].str.split()
        f["t"] = f["t"].str.upper()
        f.loc[f["x"] > 2, "t"] = "z z z"
        return words.str.len(), words.explode().tolist(), f["t"].str.split().str.join("+"), list(words), f

    check(program, _frame(), native=None)


def test_other_operations_on_lists() -> None:
    """A column of lists is an object column; what is not planned materialises it."""
    programs: list[Callable[[Any, Any], Any]] = [
        lambda pd, s: repr(s),
        lambda pd, s: s == ["a"],
        lambda pd, s: s.isna(),
        lambda pd, s: s.fillna("x"),
        lambda pd, s: s.dropna(),
        lambda pd, s: s.map(len, na_action="ignore"),
        lambda pd, s: s.apply(lambda items: items),
        lambda pd, s: s.to_frame().assign(n=1).drop_duplicates("n"),
        lambda pd, s: s.astype("str"),
        lambda pd, s: s.shift(),
        lambda pd, s: s.where(s.notna(), None),
        lambda pd, s: s.sum(),
        lambda pd, s: s.head(2).tolist() + s.tail(1).tolist(),
        lambda pd, s: s.groupby(s.str.len()).size(),
        lambda pd, s: s.groupby(s.str.len()).first(),
        lambda pd, s: s.reindex([0, 20]),
        lambda pd, s: s.to_frame().merge(s.to_frame(), left_index=True, right_index=True)["t_y"].str.len(),
        lambda pd, s: pd.concat([s, s.iloc[:2]]).str.len(),
        lambda pd, s: s.value_counts(),
        lambda pd, s: s.nunique(),
        lambda pd, s: s + s,
        lambda pd, s: s.count(),
        lambda pd, s: s.memory_usage(),
        lambda pd, s: s.dtype,
        lambda pd, s: s.iloc[3],
        lambda pd, s: [items for _, items in s.items()],
        lambda pd, s: s.str.contains("a"),
        lambda pd, s: s.str.slice(0, 1),
        lambda pd, s: s.str.get("a"),
        lambda pd, s: s.explode().explode(),
    ]
    for program in programs:
        for texts in ("usual", "no missing", "no rows"):
            data = pandas.Series(TEXTS[texts], dtype="str", name="t")
            check(lambda pd, s, program=program: program(pd, s.str.split()), data, native=None)


SLICES = [
    (None, None),
    (1, None),
    (-2, None),
    (None, 2),
    (None, -1),
    (1, 3),
    (1, -1),
    (-2, -1),
    (5, 2),
    (3, None),
    (-9, None),
    (None, -9),
]


@pytest.mark.parametrize("name", TEXTS)
def test_slices_of_lists(name: str) -> None:
    data = pandas.Series(TEXTS[name], dtype="str", name="t")
    for start, stop in SLICES:
        for read in ("lists", "len", "last", "join", "explode"):
            check(lambda pd, s, r=read, a=start, b=stop: READS[r](s.str.split(" ").str[a:b]), data, native=None)
        check(lambda pd, s, a=start, b=stop: s.str.split(" ").str[a:b].str[1:].str.join("+"), data, native=None)
    check(lambda pd, s: s.str.split(" ").str[::2].str.join("+"), data, native=None)
    check(lambda pd, s: s.str.split(" ").str[1.5:], data, native=None)


def test_slices_are_new_lists() -> None:
    def program(pd: Any, s: Any) -> Any:
        lists = s.str.split(" ")
        rest = lists.str[1:]
        few = rest[rest.str.len() > 0].str[:1]
        lists.iloc[0].append("added")
        rest.iloc[0].append("more")
        return lists.str.len(), rest.str.len(), few.str.join(""), lists.str[1:].explode(), rest.explode(), few.explode()

    check(program, pandas.Series(TEXTS["usual"], dtype="str"), native=None)


EXTRACTED = [r"(\w)", r"(?P<word>\w+)", "([ab])", "(a|b) ?", "(a)(b)?", "(a*)", "a", "(,)", r"(\d$)", "((a))", "(q)"]


@pytest.mark.parametrize("name", TEXTS)
def test_extractall(name: str) -> None:
    for labels in (None, "texts", "repeated", "two", "dates"):
        data = pandas.Series(TEXTS[name], dtype="str", name="t")
        if labels == "texts":
            data.index = pandas.Index([f"l{i % 3}" for i in range(len(data))], name="i", dtype="str")
        elif labels == "repeated":
            data.index = pandas.Index([i % 3 for i in range(len(data))], name="i", dtype="int64")
        elif labels == "two":
            data.index = pandas.MultiIndex.from_arrays([range(len(data)), ["x"] * len(data)], names=["i", "match"])
        elif labels == "dates":
            data.index = pandas.date_range("2024", periods=len(data))
        for pattern in EXTRACTED:
            check(lambda pd, s, p=pattern: s.str.extractall(p), data, native=None)
    check(lambda pd, s: s.str.extractall(r"(\w)")[0].value_counts(), pandas.Series(TEXTS["usual"], dtype="str"))


REPLACED: list[dict[str, Any]] = [
    {"to_replace": "a", "value": "q"},
    {"to_replace": "[ab]+", "value": "$1"},
    {"to_replace": {"a": "b", "b": "c"}},
    {"to_replace": {"^a": "z", r"\w$": "y"}},
    {"to_replace": ["a", "b"], "value": ["b", "a"]},
    {"to_replace": ["a", "[, ]"], "value": "_"},
    {"to_replace": "a*", "value": "q"},
    {"to_replace": "", "value": "q"},
    {"to_replace": "(a)", "value": r"\1\1"},
    {"to_replace": "a", "value": None},
    {"to_replace": "a", "value": 1},
    {"to_replace": {"a": 1}},
    {"to_replace": "(?i)B", "value": "q"},
    {"to_replace": {"t": "a"}, "value": "q"},
    {"to_replace": {"t": {"a": "q", " ": "_"}}},
]


@pytest.mark.parametrize("name", TEXTS)
def test_replacements_by_patterns(name: str) -> None:
    data = pandas.Series(TEXTS[name], dtype="str", name="t")
    frame = data.to_frame().assign(x=1.5, n=1, b=True)
    for given in REPLACED:
        check(lambda pd, s, g=given: s.replace(**g, regex=True), data, native=None)
        check(lambda pd, f, g=given: f.replace(**g, regex=True), frame, native=None)
    check(lambda pd, s: s.replace(regex="^a", value="q"), data, native=None)
    check(lambda pd, s: s.replace(regex=["a", "b"], value="q"), data, native=None)
    check(lambda pd, s: s.replace(regex={"a": "q"}), data, native=None)

    def in_place(pd: Any, s: Any) -> Any:
        other = s.copy()
        s.replace("a", "q", regex=True, inplace=True)
        return s, other

    check(in_place, data, native=None)


@pytest.mark.parametrize("name", TEXTS)
def test_all_strings_as_one(name: str) -> None:
    for dtype in ("str", "string", "category"):
        data = pandas.Series(TEXTS[name], dtype="str", name="t").astype(dtype)
        for given in ({}, {"sep": ", "}, {"na_rep": "?"}, {"sep": "", "na_rep": ""}, {"sep": 1}, {"na_rep": 1}):
            check(lambda pd, s, g=given: s.str.cat(**g), data, native=None)
    data = pandas.Series(TEXTS[name], dtype="str")
    engine = TiledEngine(InlineRunner(), settings=Settings(tiles=4, broadcast_bytes=1, collapse_bytes=0), least_bytes=0)
    with using(engine):
        check(lambda pd, s: s.str.cat(sep="|"), data, native=True)
        check(lambda pd, s: s.str.split(" ").str[1:].str.join("+"), data, native=None)
        check(lambda pd, s: s.str.extractall(r"(\w)"), data, native=None)


@pytest.mark.parametrize("rows", [11, 500])
def test_printed_lists_are_not_kept(rows: int) -> None:
    """Printing makes lists for itself only, so that later calls are planned."""

    def program(pd: Any, f: Any) -> Any:
        f["w"] = f["t"].str.split(",")
        shown = [repr(f), repr(f["w"]), repr(f.head(3)), f._repr_html_(), str(f[f["x"] > 3]["w"].str[1:])]
        exploded = f.explode("w")
        return shown, f["w"].str.len(), exploded, repr(exploded)

    check(program, _frame(rows), native=True)

    def missing(pd: Any, f: Any) -> Any:
        f["w"] = f["t"].where(f["x"] == 4).str.split(",")
        f["v"] = f["w"].str[1:]
        few = f.head(2)
        return repr(few), repr(f), repr(f["v"].head(3)), few, f[f["x"] == 9], repr(f[f["x"] == 9])

    check(missing, _frame(rows), native=None)

    def changed(pd: Any, f: Any) -> Any:
        f["w"] = f["t"].str.split(",")
        first = f.head(3)
        shown = repr(first)
        first["w"].iloc[0].append("added")
        return shown, repr(first), repr(f), repr(f["w"].iloc[:2]), f["w"].str.len()

    check(changed, _frame(rows), native=None)


WINDOWED: dict[str, Callable[[Any], Any]] = {
    "filled": lambda f: f.groupby("k")["t"].ffill(),
    "shifted": lambda f: f.groupby("k")["t"].shift(fill_value="b a"),
    "filled, other columns": lambda f: f.assign(n=1)[["k", "t"]].groupby("k")["t"].bfill(),
    "chosen by a window": lambda f: f["t"].where(f.groupby("k")["x"].cumsum() > 1, "a,b"),
    "of selected rows": lambda f: f[f.groupby("k")["x"].rank() > 1]["t"],
    "shifted rows": lambda f: f["t"].shift(1),
}


@pytest.mark.parametrize("call", [*CALLS, "extractall"])
@pytest.mark.parametrize("made", WINDOWED)
def test_texts_that_depend_on_other_rows(made: str, call: str) -> None:
    texts = TEXTS["usual"]
    keys = [["p", "q", None][i % 3] for i in range(len(texts))]
    data = pandas.DataFrame({"k": keys, "t": pandas.Series(texts, dtype="str"), "x": np.arange(len(texts)) % 4})

    def program(pd: Any, frame: Any) -> Any:
        column = WINDOWED[made](frame)
        if call == "extractall":
            found = column.str.extractall("([ab])")
            return found, found[0].value_counts(), column
        lists = CALLS[call](column)
        return lists, lists.str.len().sum(), lists.explode(), column

    check(program, data, native=None)
