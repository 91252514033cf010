"""Operations on values that plans carry by position (objects, periods, intervals), and conversions to them and of row labels."""

from __future__ import annotations

from tests.fuzz.building import Builder, operation
from tests.fuzz.parameters import near

_LABELS = (
    "pandas.period_range('2020', periods=len({v}), freq='M')",
    "pandas.interval_range(0, len({v}))",
    "pd.Index(list(range(len({v}))), dtype=object)",
    "pd.Index([str(i // 2) for i in range(len({v}))], dtype=object, name='o')",
    "pd.Index([i if i % 3 else 'x' for i in range(len({v}))], dtype=object)",
)


@operation("Series.astype", "series", 1.5)
def _(g: Builder, v: str) -> str:
    more = ["", ".isna()", ".dropna()", f" == {near(g, v)}", f" != {near(g, v)}", ".iloc[1:4]", f".astype({v}.dtype)"]
    return f"{v}.astype(object){g.pick(more)}"


@operation("DataFrame.astype", "frame", 1)
def _(g: Builder, v: str) -> str | None:
    column = g.column(v)
    return None if column is None else f"{v}.astype({g.pick(['object', f'{{{column}: object}}'])})"


@operation("DataFrame.set_axis", "frame", 1.5)
def _(g: Builder, v: str) -> str:
    return f"{v}.set_axis({g.pick(_LABELS).format(v=v)})"


@operation("Series.set_axis", "series", 0.7)
def _(g: Builder, v: str) -> str:
    return f"{v}.set_axis({g.pick(_LABELS).format(v=v)})"


@operation("DataFrame.to_period", "frame", 0.5)
def _(g: Builder, v: str) -> str:
    dated = f"{v}.set_axis(pandas.date_range('2020-01-31', periods=len({v}), freq='{g.pick(['D', 'h', 'MS'])}'))"
    call = g.pick(
        [
            "to_period('M')",
            "to_period()",
            "to_period('D').to_timestamp()",
            "tz_localize('UTC').tz_convert('Asia/Tokyo')",
        ]
    )
    return f"{dated}.{call}"


@operation("DataFrame.xs", "frame", 0.5)
def _(g: Builder, v: str) -> str | None:
    column = g.column(v)
    return None if column is None else f"{v}.xs({column}, axis=1)"


@operation("Series.where", "series", 0.7)
def _(g: Builder, v: str) -> str:
    return f"{v}.{g.pick(['where', 'mask'])}(np.arange(len({v})) % {g.pick(['2', '3'])} == 0)"


@operation("DataFrame.where", "frame", 0.5)
def _(g: Builder, v: str) -> str:
    return f"{v}.{g.pick(['where', 'mask'])}(np.arange({v}.size).reshape({v}.shape) % 2 == 0)"
