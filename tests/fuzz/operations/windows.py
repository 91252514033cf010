"""Moving windows: rolling, expanding and ewm, of frames, series and groups."""

from __future__ import annotations

from tests.fuzz.building import Builder, operation
from tests.fuzz.operations.groups import grouped
from tests.fuzz.parameters import numeric

_STATISTICS = (
    *("mean", "sum", "std", "var", "min", "max", "median", "count", "skew", "kurt", "sem", "first", "last", "nunique"),
    *("rank", "quantile"),
)
_WEIGHTED = ("mean", "std", "var", "sum")


def _rolling(g: Builder, name: str, times: bool = False) -> str:
    """The text of a call of ``rolling``."""
    if times and g.chance(0.7):
        parts = [g.quoted("2D", "36h", "1h", "3D", "90min", "365D")]
    else:
        parts = [str(g.rng.choice([0, 1, 2, 2, 3, 3, 4, 7]))]
    g.note_parameter(name, "window")
    if g.chance(0.4):
        parts.append(f"min_periods={g.pick(['0', '1', '1', '2'])}")
        g.note_parameter(name, "min_periods")
    if g.chance(0.2):
        parts.append("center=True")
        g.note_parameter(name, "center")
    if g.chance(0.2):
        parts.append(f"closed={g.quoted('left', 'right', 'both', 'neither')}")
        g.note_parameter(name, "closed")
    return f"rolling({', '.join(parts)})"


def _windows(g: Builder, kind: str, times: bool = False) -> tuple[str, str]:
    """The text of a window object, and the name of one of its statistics; the names are noted for ``kind`` of frames or series."""
    drawn = g.rng.random()
    if drawn < 0.6:
        return _rolling(g, f"{kind}.rolling", times), g.pick(_STATISTICS)
    if drawn < 0.8:
        return _expanding(g, kind), g.pick(_STATISTICS)
    return _decaying(g, kind), g.pick(_WEIGHTED)


def _expanding(g: Builder, kind: str) -> str:
    """The text of a call of ``expanding``."""
    if g.chance(0.6):
        return "expanding()"
    g.note_parameter(f"{kind}.expanding", "min_periods")
    return f"expanding({g.pick(['1', '2', '3'])})"


_EWM = {"min_periods": "2", "adjust": "False", "ignore_na": "True"}


def _decaying(g: Builder, kind: str) -> str:
    """The text of a call of ``ewm``."""
    decay = g.pick(["span=3", "com=0.5", "halflife=2", "alpha=0.3", "alpha=1.0", "span=1"])
    g.note_parameter(f"{kind}.ewm", decay.partition("=")[0])
    more = "".join(f", {name}={value}" for name, value in _EWM.items() if g.chance(0.25))
    return f"ewm({decay}{more})"


def _statistic(g: Builder, name: str) -> str:
    given = {
        "quantile": g.pick(["0.5", "0.25, interpolation='lower'", "1.0"]),
        "rank": g.pick(["", "pct=True", "'min'"]),
    }
    if name in ("std", "var", "sem") and g.chance(0.1):
        return f"{name}(ddof=0)"
    return f"{name}({given.get(name, '')})"


def _functions(g: Builder, name: str) -> str:
    return f'agg(["{name}", "mean"])' if name != "mean" and g.chance(0.7) else f'agg("{name}")'


@operation("DataFrame.rolling", "frame", 3)
def _(g: Builder, v: str) -> str | None:
    columns = numeric(g, v)
    if columns is None:
        return None
    windows, name = _windows(g, "DataFrame")
    if g.chance(0.15) and name not in ("quantile", "rank"):
        return f"{columns}.{windows}.{_functions(g, name)}"
    return f"{columns}.{windows}.{_statistic(g, name)}"


@operation("DataFrame.expanding", "frame", 1)
def _(g: Builder, v: str) -> str | None:
    column = g.column(v, "number")
    if column is None:
        return None
    windows, name = _windows(g, "DataFrame")
    return f"{v}.{windows}[{column}].{_statistic(g, name)}"


@operation("DataFrame.rolling", "frame", 1)
def _(g: Builder, v: str) -> str | None:
    column, time = g.column(v, "number"), g.column(v, "time")
    if column is None or time is None:
        return None
    g.note_parameter("DataFrame.rolling", "on")
    ordered = g.pick([v, f"{v}.sort_values({time})", f"{v}.dropna(subset=[{time}]).sort_values({time})"])
    windows = _rolling(g, "DataFrame.rolling", True)[:-1] + f", on={time})"
    chosen = g.pick([f"[{column}]", f"[[{column}]]"])
    return f"{ordered}.{windows}{chosen}.{_statistic(g, g.pick(_STATISTICS))}"


@operation("DataFrame.ewm", "frame", 0.7)
def _(g: Builder, v: str) -> str | None:
    columns = numeric(g, v)
    return None if columns is None else f"{columns}.{_decaying(g, 'DataFrame')}.{_statistic(g, g.pick(_WEIGHTED))}"


@operation("Series.ewm", "number_series", 1.5)
def _(g: Builder, v: str) -> str | None:
    windows, name = _windows(g, "Series")
    if g.chance(0.15) and name not in ("quantile", "rank"):
        return f"{v}.{windows}.{_functions(g, name)}"
    return f"{v}.{windows}.{_statistic(g, name)}"


@operation("Series.rolling", "number_series", 1.5)
def _(g: Builder, v: str) -> str | None:
    windows, name = _windows(g, "Series")
    return f"{v}.{windows}.{_statistic(g, name)}"


#: Functions of windows: of arrays, of series, and by name.
_OF_WINDOWS = (
    *("apply(np.sum, raw=True)", "apply(lambda w: w.max() - w.min())", "apply(len)", "apply(lambda w: w.iloc[0])"),
    *("agg([np.max, 'mean'])", "agg(np.mean)", "agg(lambda w: w.sum())", "apply(np.ptp, raw=True)"),
)


@operation("Series.rolling", "number_series", 0.7)
def _(g: Builder, v: str) -> str | None:
    windows = g.pick([_rolling(g, "Series.rolling"), _expanding(g, "Series")])
    return f"{v}.{windows}.{g.pick(_OF_WINDOWS)}"


@operation("DataFrame.rolling", "frame", 0.7)
def _(g: Builder, v: str) -> str | None:
    columns = numeric(g, v)
    if columns is None:
        return None
    windows = g.pick([_rolling(g, "DataFrame.rolling"), _expanding(g, "DataFrame")])
    return f"{columns}.{windows}.{g.pick(_OF_WINDOWS)}"


@operation("Series.expanding", "series", 0.5)
def _(g: Builder, v: str) -> str | None:
    windows, name = _windows(g, "Series")
    return f"{v}.{windows}.{g.pick(['count()', _statistic(g, name)])}"


@operation("Series.rolling", "frame", 0.7)
def _(g: Builder, v: str) -> str | None:
    one, other = g.column_of(v, "number"), g.column_of(v, "number")
    if one is None or other is None:
        return None
    windows, _ = _windows(g, "Series")
    return f"{one}.{windows}.{g.pick(['corr', 'cov'])}({other})"


@operation("Series.groupby.rolling", "frame", 3)
def _(g: Builder, v: str) -> str | None:
    groups = grouped(g, v, True)
    if groups is None:
        return None
    windows, name = _windows(g, "Series.groupby")
    if g.chance(0.1) and name not in ("quantile", "rank"):
        return f"{groups}.{windows}.{_functions(g, name)}"
    end = g.pick(["", "", ".reset_index(level=0, drop=True)", ".reset_index()", ".sum()"])
    return f"{groups}.{windows}.{_statistic(g, name)}{end}"


@operation("DataFrame.groupby.rolling", "frame", 1)
def _(g: Builder, v: str) -> str | None:
    groups, columns = grouped(g, v, False), g.column_list(v, "number")
    if groups is None or columns is None:
        return None
    windows, name = _windows(g, "DataFrame.groupby")
    form = g.pick([f"{groups}[{columns}].{windows}", f"{groups}.{windows}[{columns}]"])
    return f"{form}.{_statistic(g, name)}"


@operation("DataFrame.groupby.rolling", "frame", 1)
def _(g: Builder, v: str) -> str | None:
    time, column = g.column(v, "time"), g.column(v, "number")
    if time is None or column is None:
        return None
    rows = g.pick([v, f"{v}.sort_values({time})", f"{v}.dropna(subset=[{time}]).sort_values({time})"])
    groups = grouped(g, v, False)
    if groups is None or not groups.startswith(f"{v}.groupby("):
        return None
    g.note_parameter("DataFrame.groupby.rolling", "on")
    windows = _rolling(g, "DataFrame.groupby.rolling", True)[:-1] + f", on={time})"
    return f"{rows}{groups[len(v) :]}.{windows}[{column}].{_statistic(g, g.pick(_STATISTICS))}"


@operation("Series.groupby.expanding", "series_groups", 0.5)
def _(g: Builder, v: str) -> str | None:
    return f"{v}.{_expanding(g, 'Series.groupby')}.{_statistic(g, g.pick(_STATISTICS))}"


@operation("Series.groupby.ewm", "series_groups", 0.5)
def _(g: Builder, v: str) -> str | None:
    return f"{v}.{_decaying(g, 'Series.groupby')}.{_statistic(g, g.pick(_WEIGHTED))}"


@operation("DataFrame.groupby.expanding", "frame_groups", 0.5)
def _(g: Builder, v: str) -> str | None:
    statistic = _statistic(g, g.pick(_STATISTICS)).replace("()", "(numeric_only=True)")
    return f"{v}.{_expanding(g, 'DataFrame.groupby')}.{statistic}"


@operation("DataFrame.groupby.ewm", "frame_groups", 0.5)
def _(g: Builder, v: str) -> str | None:
    return f"{v}.{_decaying(g, 'DataFrame.groupby')}.{g.pick(_WEIGHTED)}(numeric_only=True)"
