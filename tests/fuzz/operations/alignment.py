"""Operations that align rows by labels or by the nearest key: reindex, align, combine_first, update, xs, merge_asof and others."""

from __future__ import annotations

from tests.fuzz.building import Builder, Statement, operation
from tests.fuzz.parameters import Draw, arguments, maybe, of

JOIN = of('"inner"', '"left"', '"right"', '"outer"')


def _other(g: Builder, v: str, kind: str = "frame") -> str:
    """An object whose row labels differ from those of a variable, or another variable."""
    other = g.variable(kind, 0.2) or v
    return g.pick([other, f"{v}.iloc[::-1]", f"{v}.iloc[1:4]", f"{other}.head(5)", f"{v}.iloc[::2]", f"{v}.tail(3)"])


def _labels(g: Builder, v: str) -> str:
    """Row labels, of which some may be new."""
    other = g.variable("frame", 0.2) or v
    return g.pick(
        [
            f"{v}.index[::-1]",
            f"{v}.index[1:5]",
            f"{other}.index",
            "range(2, 9)",
            "[3, 1, 77]",
            "[]",
            f"{v}.index[:3].append({v}.index[5:6])",
            f"{v}.index.union({other}.index)",
        ]
    )


def _text(given: str) -> str:
    return f", {given}" if given else ""


@operation("DataFrame.reindex", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    more: dict[str, Draw] = {
        "fill_value": maybe(of("0", "np.nan", "1.5", '"zz"', "False"), 0.3),
        "method": maybe(of('"ffill"', '"bfill"', '"nearest"'), 0.15),
        "limit": maybe("1", 0.05),
    }
    given = _text(arguments(g, "DataFrame.reindex", v, more))
    if g.chance(0.3):
        labels = [*g.some(g.columns(v), 3), *(['"q"'] if g.chance(0.6) else [])]
        g.note_parameter("DataFrame.reindex", "columns")
        return f"{v}.reindex(columns=[{', '.join(labels)}]{given})"
    if g.chance(0.2):
        columns = ", ".join([*g.some(g.columns(v), 3), *g.pick([[], ['"q"']])])
        source = g.pick(
            [v, f'{v}.select_dtypes("number")', f'{v}.select_dtypes("int64")', f'{v}.select_dtypes("bool")']
        )
        return f"{source}.reindex(index={_labels(g, v)}, columns=[{columns}]{given})"
    g.note_parameter("DataFrame.reindex", g.pick(["index", "labels"]))
    return g.pick([f"{v}.reindex({_labels(g, v)}{given})", f"{v}.reindex(index={_labels(g, v)}{given})"])


def _as_frequency(g: Builder, name: str, receiver: str) -> str:
    """The text of a call of ``asfreq``."""
    more: dict[str, Draw] = {
        "method": maybe(of('"ffill"', '"bfill"'), 0.3),
        "normalize": maybe(of("True"), 0.15),
        "fill_value": maybe(of("0", "1.5", '"zz"'), 0.3),
    }
    g.note_parameter(name, "freq")
    freq = g.quoted("D", "12h", "h", "2D", "MS")
    return f"{receiver}.asfreq({freq}{_text(arguments(g, name, receiver, more) or '')})"


@operation("DataFrame.asfreq", "frame", 1)
def _(g: Builder, v: str) -> str | None:
    time = g.column(v, "time")
    if time is None:
        return None
    rows = g.pick([f"{v}.drop_duplicates({time})", f"{v}.dropna(subset=[{time}]).drop_duplicates({time})", v])
    return _as_frequency(g, "DataFrame.asfreq", f"{rows}.set_index({time}).head(6)")


@operation("Series.asfreq", "frame", 0.8)
def _(g: Builder, v: str) -> str | None:
    time, column = g.column(v, "time"), g.column(v)
    if time is None or column is None or time == column:
        return None
    rows = g.pick([f"{v}.drop_duplicates({time})", f"{v}.dropna(subset=[{time}]).drop_duplicates({time})", v])
    return _as_frequency(g, "Series.asfreq", f"{rows}.set_index({time})[{column}].sort_index().head(6)")


@operation("Series.reindex", "series", 1)
def _(g: Builder, v: str) -> str | None:
    more: dict[str, Draw] = {
        "fill_value": maybe(of("0", "np.nan", "1.5", '"zz"', "False"), 0.3),
        "method": maybe(of('"ffill"', '"bfill"', '"nearest"'), 0.15),
    }
    return f"{v}.reindex({_labels(g, v)}{_text(arguments(g, 'Series.reindex', v, more))})"


@operation("DataFrame.reindex_like", "frame", 0.5)
def _(g: Builder, v: str) -> str | None:
    return f"{v}.reindex_like({_other(g, v)})"


@operation("Series.reindex_like", "series", 0.3)
def _(g: Builder, v: str) -> str | None:
    return f"{v}.reindex_like({_other(g, v, 'series')})"


@operation("DataFrame.align", "frame", 1)
def _(g: Builder, v: str) -> str | None:
    more: dict[str, Draw] = {
        "join": maybe(JOIN, 0.6),
        "axis": maybe(of("0", "1"), 0.4),
        "fill_value": maybe(of("0", "1.5"), 0.2),
    }
    given = arguments(g, "DataFrame.align", v, more)
    return f"{v}.align({_other(g, v)}{_text(given)})[{g.pick([0, 1])}]"


@operation("Series.align", "series", 0.5)
def _(g: Builder, v: str) -> str | None:
    given = arguments(g, "Series.align", v, {"join": maybe(JOIN, 0.6)})
    return f"{v}.align({_other(g, v, 'series')}{_text(given)})[{g.pick([0, 1])}]"


@operation("DataFrame.combine_first", "frame", 1)
def _(g: Builder, v: str) -> str | None:
    return f"{v}.combine_first({_other(g, v)})"


@operation("Series.combine_first", "series", 0.5)
def _(g: Builder, v: str) -> str | None:
    return f"{v}.combine_first({_other(g, v, 'series')})"


@operation("DataFrame.update", "frame", 0.7)
def _(g: Builder, v: str) -> str | None:
    given = arguments(g, "DataFrame.update", v, {"overwrite": maybe(of("True", "False"), 0.4)})
    return Statement(f"{v}.update({_other(g, v)}{_text(given)})")


@operation("Series.update", "series", 0.3)
def _(g: Builder, v: str) -> str | None:
    return Statement(f"{v}.update({_other(g, v, 'series')})")


@operation("DataFrame.shift", "frame", 0.4)
def _(g: Builder, v: str) -> str | None:
    given = g.pick(["[0, 1]", "[1, -2], suffix='_s'", "1, freq='D'", "-2, freq='h'", "(1,)"])
    return f"{v}.shift({given})"


@operation("Series.shift", "series", 0.3)
def _(g: Builder, v: str) -> str | None:
    given = g.pick(["[0, 1]", "[1, -2]", "1, freq='D'"])
    return f"{v}.shift({given})"


@operation("Series.fillna", "series", 0.4)
def _(g: Builder, v: str) -> str | None:
    return f"{v}.fillna({_other(g, v, 'series')})"


@operation("DataFrame.merge", "frame", 0.5)
def _(g: Builder, v: str) -> str | None:
    on, other = g.key(v), g.variable("frame", 0.2) or v
    how = g.pick(['"inner"', '"left"', '"right"', '"outer"'])
    if on is None or on not in g.columns(other):
        return None
    right = f"{other}.head(9).set_index({on}).add_suffix('_o')"
    return g.pick(
        [
            f"{v}.merge({right}, left_on={on}, right_index=True, how={how})",
            f"{right}.merge({v}, right_on={on}, left_index=True, how={how})",
            f"{v}.head(20).set_index({on}).join({right}, how={how})",
        ]
    )


@operation("operators of different rows", "series", 1)
def _(g: Builder, v: str) -> str | None:
    other = _other(g, v, "series")
    return g.pick(
        [
            f"{v} {g.pick(['+', '-', '*', '/', '==', '<', '&'])} {other}",
            f"{v}.add({other}, fill_value={g.pick(['0', '1.5'])})",
            f"{other} - {v}",
        ]
    )


@operation("operators of different rows", "frame", 0.5)
def _(g: Builder, v: str) -> str | None:
    columns = g.column_list(v, "number")
    if columns is None:
        return None
    tail = g.pick(["iloc[::-1]", "head(4)", "iloc[1::2]"])
    return f"{v}[{columns}] {g.pick(['+', '-', '*', '=='])} {v}.{tail}[{columns}]"


@operation("pandas.concat", "frame", 1)
def _(g: Builder, v: str) -> str | None:
    more: dict[str, Draw] = {"join": maybe(of('"inner"', '"outer"'), 0.5), "sort": maybe(of("True", "False"), 0.3)}
    given = _text(arguments(g, "pandas.concat", v, more))
    return f"pd.concat([{v}, {_other(g, v)}.add_suffix('_o')], axis=1{given})"


@operation("pandas.concat", "series", 0.6)
def _(g: Builder, v: str) -> str | None:
    given = _text(arguments(g, "pandas.concat", v, {"join": maybe(of('"inner"', '"outer"'), 0.5)}))
    return f"pd.concat([{v}, {_other(g, v, 'series')}], axis=1{given})"


@operation("DataFrame.join", "frame", 0.7)
def _(g: Builder, v: str) -> str | None:
    given = _text(arguments(g, "DataFrame.join", v, {"how": maybe(JOIN, 0.7), "sort": maybe(of("True"), 0.1)}))
    return f"{v}.join([{_other(g, v)}.add_prefix('o_'), {_other(g, v)}.add_prefix('p_')]{given})"


@operation("pandas.merge_asof", "frame", 1.5)
def _(g: Builder, v: str) -> str | None:
    other = g.variable("frame", 0.2) or v
    on = g.column(v, "number", "time", "span")
    if on is None or on not in g.columns(other):
        return None
    by = g.key(v)
    more: dict[str, Draw] = {
        "direction": maybe(of('"backward"', '"forward"', '"nearest"'), 0.6),
        "allow_exact_matches": maybe(of("True", "False"), 0.3),
        "tolerance": maybe(of("1", "2.5", 'pd.Timedelta("2D")'), 0.2),
        "suffixes": maybe(of('("", "_r")'), 0.3),
        "by": (lambda g, v: by) if by and by != on and by in g.columns(other) and g.chance(0.4) else maybe("0", 0),
    }
    given = _text(arguments(g, "pandas.merge_asof", v, more))
    left, right = (f'{name}.dropna(subset=[{on}]).sort_values({on}, kind="stable")' for name in (v, other))
    g.note_parameter("pandas.merge_asof", "on")
    return f"pd.merge_asof({left}, {right}, on={on}{given})"


@operation("pandas.merge_ordered", "frame", 0.7)
def _(g: Builder, v: str) -> str | None:
    other = g.variable("frame", 0.2) or v
    on = g.key(v)
    if on is None or on not in g.columns(other):
        return None
    more: dict[str, Draw] = {
        "how": maybe(JOIN, 0.4),
        "fill_method": maybe('"ffill"', 0.4),
        "suffixes": maybe(of('("", "_r")'), 0.3),
    }
    given = _text(arguments(g, "pandas.merge_ordered", v, more))
    return f"pd.merge_ordered({v}.head(20), {other}.head(20), on={on}{given})"


def _levels(g: Builder, v: str) -> str | None:
    """A frame with row labels of two levels, as text."""
    if getattr(g.value(v).index, "nlevels", 1) > 1:
        return v
    found = g.columns(v)
    return f"{v}.set_index([{', '.join(g.rng.sample(found, 2))}])" if len(found) > 2 else None


def _cross_section(g: Builder, v: str, column: bool) -> str | None:
    """The text of a call of ``xs`` of a frame or of one of its columns, whose row labels have two levels."""
    frame = _levels(g, v)
    index = getattr(g.value(frame), "index", ()) if frame else ()
    if not len(index):
        return None
    place = g.rng.randrange(len(index))
    more: dict[str, Draw] = {"drop_level": maybe("False", 0.3)}
    given = _text(arguments(g, "Series.xs" if column else "DataFrame.xs", v, more))
    level = g.pick([0, 1])
    rows = f"{frame}[{g.column(frame)}]" if column else frame
    return g.pick(
        [
            f"{rows}.xs({frame}.index[{place}]{given})",
            f"{rows}.xs({frame}.index[{place}][{level}], level={level}{given})",
            f"{rows}.xs({frame}.index[{place}][0]{given})",
        ]
    )


@operation("DataFrame.xs", "frame", 1)
def _(g: Builder, v: str) -> str | None:
    return _cross_section(g, v, False)


@operation("Series.xs", "frame", 0.5)
def _(g: Builder, v: str) -> str | None:
    return _cross_section(g, v, True)


@operation("DataFrame.loc", "frame", 1)
def _(g: Builder, v: str) -> str | None:
    frame = _levels(g, v)
    index = getattr(g.value(frame), "index", ()) if frame else ()
    if not len(index):
        return None
    label, second = (f"{frame}.index[{g.rng.randrange(len(index))}]" for _ in range(2))
    tail = g.pick(["", ".sort_index()"])
    column = g.column(frame) or '"x"'
    keys = [
        label,
        f"{label}, :",
        f"{label}, {column}",
        f"{label}[0]",
        f"{label}[0], {column}",
        f"(slice(None), {label}[1]), :",
        f"{label}[0]:{second}[0]",
        f"[{label}[0], {second}[0]]",
        f"[{label}, {second}], [{column}]",
    ]
    return f"{frame}{tail}.loc[{g.pick(keys)}]"


@operation("DataFrame.drop", "frame", 0.7)
def _(g: Builder, v: str) -> str | None:
    labels = g.pick([f"{v}.index[:2]", f"{v}.index[1::3]", "[0]", "[1, 77]", f"{v}.index[:0]"])
    given = _text(arguments(g, "DataFrame.drop", v, {"errors": maybe('"ignore"', 0.4)}))
    return f"{v}.drop({g.pick(['', 'index='])}{labels}{given})"


@operation("Series.drop", "series", 0.5)
def _(g: Builder, v: str) -> str | None:
    labels = g.pick([f"{v}.index[:2]", f"{v}.index[1::3]", "[0]", "[1, 77]"])
    given = _text(arguments(g, "Series.drop", v, {"errors": maybe('"ignore"', 0.4)}))
    return f"{v}.drop({labels}{given})"


@operation("DataFrame.filter", "frame", 0.3)
def _(g: Builder, v: str) -> str | None:
    chosen = g.pick(["items=[0, 3, 99]", 'like="1"', 'regex="[02]$"'])
    return f"{v}.filter({chosen}, axis=0)"


@operation("Series.filter", "series", 0.3)
def _(g: Builder, v: str) -> str | None:
    chosen = g.pick(["items=[0, 3, 99]", "[1, 2]", 'like="1"', 'regex="[02]$"', "items=[]"])
    return f"{v}.filter({chosen})"


@operation("DataFrame.rename", "frame", 0.3)
def _(g: Builder, v: str) -> str | None:
    return f"{v}.rename(index={{{g.pick(['0: 5', '1: 99', '0: 0'])}}})"


@operation("DataFrame.sample", "frame", 0.3)
def _(g: Builder, v: str) -> str | None:
    weights = g.pick([g.column(v, "number") or "None", f"list(range(len({v})))"])
    return f"{v}.sample(2, weights={weights}, random_state=3)"


@operation("DataFrame.drop_duplicates", "frame", 0.7)
def _(g: Builder, v: str) -> str | None:
    g.note_parameter("DataFrame.drop_duplicates", "keep")
    return f'{v}.drop_duplicates({g.keys(v)}, keep="last")'


def _compared(g: Builder, v: str, name: str) -> str:
    """The text of a call of ``compare`` with an object of the same labels, which has some other values."""
    same = f"{v}.reset_index(drop=True)"
    changed = [
        f"{same}.mask({same}.isna())",
        f"{same}.shift(1)",
        f"{same}.bfill()",
        f"{same}.where({same}.index % 3 > 0)",
        same,
        v,
    ]
    more: dict[str, Draw] = {
        "align_axis": maybe(of("0", "1"), 0.3),
        "keep_shape": maybe(of("True"), 0.2),
        "keep_equal": maybe(of("True"), 0.3),
        "result_names": maybe(of('("a", "b")'), 0.2),
    }
    return f"{same}.compare({g.pick(changed)}{_text(arguments(g, name, same, more))})"


@operation("DataFrame.compare", "frame", 0.7)
def _(g: Builder, v: str) -> str | None:
    return _compared(g, v, "DataFrame.compare")


@operation("Series.compare", "series", 0.4)
def _(g: Builder, v: str) -> str | None:
    return _compared(g, v, "Series.compare")
