"""Operations on values that plans carry by position (objects, periods, intervals), and conversions to them and of row labels."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.building import Builder, operation, register
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


_DATED = "{v}.set_axis(pandas.date_range('2020-01-31', periods=len({v}), freq='{freq}'))"
_CONVERSIONS = {
    "to_period": ("to_period('M')", "to_period()", "to_period('D')"),
    "to_timestamp": ("to_period('M').to_timestamp()", "to_period('D').to_timestamp(how='end')"),
    "tz_localize": ("tz_localize('UTC')", "tz_localize('Asia/Tokyo')", "tz_localize(None)"),
    "tz_convert": ("tz_localize('UTC').tz_convert('Asia/Tokyo')", "tz_localize('Europe/Paris').tz_convert(None)"),
}


def _converted(name: str) -> Callable[[Builder, str], str]:
    def text(g: Builder, v: str) -> str:
        return f"{_DATED.format(v=v, freq=g.pick(['D', 'h', 'MS']))}.{g.pick(_CONVERSIONS[name])}"

    return text


for _name in _CONVERSIONS:
    register(f"DataFrame.{_name}", "frame", _converted(_name), 0.2)
    register(f"Series.{_name}", "series", _converted(_name), 0.2)


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
