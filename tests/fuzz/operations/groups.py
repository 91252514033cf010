"""Group-bys and their methods, also of group-bys that are variables."""

from __future__ import annotations

from tests.fuzz.building import Builder, operation, text_of
from tests.fuzz.operations.expressions import ENDINGS, WINDOWS
from tests.fuzz.operations.masks import frame_mask
from tests.fuzz.parameters import FLAG, NUMBER, Draw, arguments, attribute, ints, maybe, method, of

PARAMETERS: dict[str, Draw] = {
    "as_index": maybe(FLAG, 0.3),
    "sort": maybe(FLAG, 0.35),
    "dropna": maybe(FLAG, 0.35),
    "observed": maybe(FLAG, 0.3),
    "group_keys": maybe(FLAG, 0.1),
}


_AGGREGATES = ("sum", "mean", "min", "max", "count", "nunique", "first", "last", "std", "size", "median", "any", "var")
_FEWER = ("prod", "sem", "all", "skew", "idxmax", "idxmin")


#: Functions that pandas calls with the values of each group, even if an aggregation has the same name.
CALLABLES = (
    "np.sum",
    "np.mean",
    "np.std",
    "np.var",
    "np.median",
    "np.max",
    "np.prod",
    "np.nansum",
    "np.any",
    "sum",
    "max",
    "len",
    '"-".join',
)


def _functions(g: Builder, v: str) -> str:
    """One aggregation, or a list of several."""

    def one() -> str:
        return g.quoted(*(_AGGREGATES if g.chance(0.8) else _FEWER))

    if g.chance(0.15):
        text = g.pick(["lambda s: s.max()", *CALLABLES])
        return f"[{text}]" if g.chance(0.2) else text
    return one() if g.chance(0.35) else f"[{', '.join(dict.fromkeys(one() for _ in range(g.rng.randint(1, 3))))}]"


def _a_group(g: Builder, v: str) -> str | None:
    """The name of a group."""
    return text_of(g.pick(g.value(v).groups)) or None


def grouped(g: Builder, v: str, column: bool) -> str | None:
    """The text of a group-by of a frame; with ``column``, of one of its columns."""
    keys = g.keys(v)
    if keys is None:
        return None
    drawn = g.rng.random()
    if drawn < 0.06:
        keys = g.column_of(v) or keys
        if g.chance(0.4):
            dtype = g.pick(["str", "object", '"category"', '"string"'])
            keys += f".astype({dtype})"
    elif drawn < 0.09:
        keys = f"{g.column_of(v, 'number')} % 2"
    elif drawn < 0.11:
        keys = "level=0"
    elif drawn < 0.13:
        keys = f"lambda i: {g.pick(['i == 0', '0', 'str(i)[0]'])}"
    elif drawn < 0.16 and (times := g.column_of(v, "time")) is not None:
        period = f"{times}.dt.to_period({g.pick(['M', 'W', 'Q', 'D', 'Y'])!r})"
        keys = period if g.chance(0.6) else f"[{period}, {g.column(v)}]"
    given = arguments(g, "DataFrame.groupby", v, PARAMETERS)
    g.note_parameter("DataFrame.groupby", "by")
    text = f"{v}.groupby({keys}{', ' + given if given else ''})"
    if column:
        one = g.column(v, "number") if g.chance(0.7) else g.column(v)
        return None if one is None else f"{text}[{one}]"
    if g.chance(0.6):
        some = g.column_list(v, "number", "bool", most=3)
        return None if some is None else f"{text}[{some}]"
    return text


@operation("DataFrame.groupby", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    return grouped(g, v, column=False)


@operation("DataFrame.groupby", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    return grouped(g, v, column=True)


@operation("Series.groupby", "series", 1.5)
def _(g: Builder, v: str) -> str | None:
    given = arguments(g, "Series.groupby", v, {name: draw for name, draw in PARAMETERS.items() if name != "as_index"})
    by = g.aligned_series(v)
    g.note_parameter("Series.groupby", "by")
    return None if by is None else f"{v}.groupby({by}{', ' + given if given else ''})"


for _family, _on in (("DataFrame.groupby", "frame_groups"), ("Series.groupby", "series_groups")):
    _frame = _on == "frame_groups"

    def _receiver(g: Builder, v: str, frame: bool = _frame) -> str | None:
        """A variable, or the text of a new group-by."""
        if v != g.variable("frame_groups" if frame else "series_groups", 1.0) or g.chance(0.6):
            frame_name = g.variable("frame")
            return None if frame_name is None else grouped(g, frame_name, column=not frame)
        return v

    def _call(
        name: str,
        usual: str = "",
        weight: float = 1.0,
        family: str = _family,
        on: str = _on,
        receiver: object = _receiver,
        **drawn: Draw,
    ) -> None:
        method(f"{family}.{name}", on, usual, weight=weight, through=receiver, **drawn)  # type: ignore[arg-type]

    for _name, _usual in {
        "sum": "numeric_only min_count skipna",
        "prod": "numeric_only min_count",
        "mean": "numeric_only",
        "median": "numeric_only",
        "min": "numeric_only min_count",
        "max": "numeric_only min_count",
        "std": "numeric_only ddof",
        "var": "numeric_only ddof",
        "sem": "numeric_only ddof",
        "skew": "numeric_only",
        "kurt": "numeric_only",
        "first": "numeric_only min_count",
        "last": "numeric_only min_count",
        "count": "",
        "size": "",
        "nunique": "dropna",
        "any": "",
        "all": "",
        "idxmax": "numeric_only" if _frame else "",
        "idxmin": "numeric_only" if _frame else "",
        "cumsum": "numeric_only",
        "cumprod": "numeric_only",
        "cummin": "numeric_only",
        "cummax": "numeric_only",
        "cumcount": "ascending",
        "ngroup": "ascending",
        "diff": "periods",
        "pct_change": "periods",
        "rank": "method ascending pct na_option",
        "ffill": "limit",
        "bfill": "limit",
        "describe": "",
        "value_counts": "normalize sort ascending dropna",
    }.items():
        _call(_name, _usual, weight=0.5 if _name in ("describe", "value_counts", "kurt", "skew") else 1.0)
    _call("shift", "periods", weight=1.5, fill_value=maybe(NUMBER, 0.2))
    _call("quantile", "interpolation numeric_only", q=maybe(of("0.5", "0.25", "[0.25, 0.75]"), 0.7))
    _call("head", n=maybe(ints(-1, 4), 0.8))
    _call("tail", n=maybe(ints(-1, 4), 0.8))
    _call("nth", n_=of("0", "1", "-1", "[0, 1]"))
    _call(
        "agg",
        weight=2,
        func_=_functions,
    )
    _call("aggregate", weight=0.3, func_=of('"last"', '["mean", "std"]'))
    _call(
        "transform",
        weight=2,
        func_=of(
            '"sum"',
            '"max"',
            '"mean"',
            '"count"',
            '"first"',
            '"cumsum"',
            '"size"',
            '"rank"',
            '"shift"',
            '"nunique"',
            "lambda s: s - s.min()",
            '"std"',
            '"any"',
            *(
                f'"{name}"'
                for name in (
                    "min",
                    "last",
                    "median",
                    "var",
                    "prod",
                    "cummax",
                    "cumcount",
                    "diff",
                    "ffill",
                    "all",
                    "sem",
                )
            ),
        ),
    )
    _call("apply", weight=0.3, func_=of("lambda f: f.max()", "len", "lambda f: f.head(1)"))
    _call("get_group", weight=0.3, name_=of("1", '"a"', '("a",)', "(1,)", '"b"', "0"))
    _call("get_group", weight=0.6, name_=_a_group)
    _call("filter", weight=0.2, func_=of("lambda f: len(f) > 1"))
    attribute(f"{_family}.ngroups", _on, 0.3, through=_receiver)
    attribute(f"{_family}.ndim", _on, 0.1, through=_receiver)


@operation("DataFrame.groupby.agg", "frame", 3)
def _(g: Builder, v: str) -> str | None:
    """Named aggregations, or a dictionary of them."""
    keys = g.keys(v)
    if keys is None:
        return None
    given = arguments(g, "DataFrame.groupby", v, PARAMETERS)
    text = f"{v}.groupby({keys}{', ' + given if given else ''})"
    g.note_parameter("DataFrame.groupby.agg", "func")

    def how() -> str:
        return g.quoted(*_AGGREGATES)

    columns = g.some(g.columns(v, "number") if g.chance(0.7) and g.columns(v, "number") else g.columns(v))
    if g.chance(0.6):
        named = ", ".join(
            f"{name}=({column}, {how()})" for name, column in zip(("one", "two", "x"), columns, strict=False)
        )
        return f"{text}.agg({named})"
    each = [f"{column}: {how() if g.chance(0.5) else f'[{how()}, {how()}]'}" for column in columns]
    return f"{text}.agg({{{', '.join(each)}}})"


@operation("groups, then more", "frame", 2.5)
def _(g: Builder, v: str) -> str | None:
    found = grouped(g, v, column=True)
    if found is None:
        return None
    one = g.pick(
        [
            "sum()",
            "mean()",
            "cumsum()",
            "shift()",
            "size()",
            "first()",
            "rank()",
            "max()",
            "diff()",
            "ffill()",
            "nth(0)",
            "head(2)",
        ]
    )
    orders = ["reset_index()", "reset_index(drop=True)", 'sort_index(kind="stable")', 'sort_values(kind="stable")']
    return f"{found}.{one}.{g.pick([*ENDINGS, *WINDOWS, *orders])}"


@operation("groups of an order", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    order, key, number = g.column(v), g.keys(v), g.column(v, "number")
    if None in (order, key, number):
        return None
    mask = frame_mask(g, v)
    some = f"{v}[{mask}]" if mask and g.chance(0.2) else v
    window = g.pick(
        [
            "cumsum()",
            "shift()",
            "diff()",
            "first()",
            "last()",
            "cumcount()",
            "head(1)",
            "nth(0)",
            "ffill()",
            'rank(method="first")',
            "pct_change()",
            'agg(["first", "last"])',
        ]
    )
    return f'{some}.sort_values({order}, kind="stable").groupby({key})[{number}].{window}{g.pick(["", "", "." + g.pick(ENDINGS)])}'


@operation("DataFrame.groupby.ohlc", "frame", 0.3)
def _(g: Builder, v: str) -> str | None:
    keys, numbers = g.keys(v), g.column_list(v, "number")
    return None if keys is None or numbers is None else f"{v}.groupby({keys})[{numbers}].ohlc()"


@operation("Series.groupby.ohlc", "frame", 0.4)
def _(g: Builder, v: str) -> str | None:
    keys, number = g.keys(v), g.column(v, "number")
    return None if keys is None or number is None else f"{v}.groupby({keys})[{number}].ohlc()"


@operation("DataFrame.groupby.cov", "frame", 0.4)
def _(g: Builder, v: str) -> str | None:
    keys, numbers = g.keys(v), g.column_list(v, "number")
    return None if keys is None or numbers is None else f"{v}.groupby({keys})[{numbers}].{g.pick(['cov', 'corr'])}()"


@operation("Series.groupby.cov", "frame", 0.4)
def _(g: Builder, v: str) -> str | None:
    keys, number, other = g.keys(v), g.column(v, "number"), g.column_of(v, "number")
    if keys is None or number is None or other is None:
        return None
    return f"{v}.groupby({keys})[{number}].{g.pick(['cov', 'corr'])}({other})"
