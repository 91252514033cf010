"""Methods of the accessors ``.str`` and ``.dt``."""

from __future__ import annotations

from tests.fuzz.building import Builder, operation
from tests.fuzz.parameters import FLAG, attribute, ints, maybe, method, of

PART = of('"a"', '"b"', '"-"', '" "', '""', '"é"', '"B"', '"1"', '"."')
FILL = maybe(of('"."', '"0"'), 0.5)


def _str(g: Builder, v: str) -> str:
    return f"{v}.str"


def _dt(g: Builder, v: str) -> str:
    return f"{v}.dt"


def text(name: str, usual: str = "", weight: float = 0.4, **drawn: object) -> None:
    method(f"Series.str.{name}", "text", usual, weight=weight, through=_str, **drawn)  # type: ignore[arg-type]


for _name in [
    "capitalize",
    "casefold",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "islower",
    "isnumeric",
    "isspace",
    "istitle",
    "isupper",
    "len",
    "lower",
    "swapcase",
    "title",
    "upper",
]:
    text(_name, weight=0.6 if _name in ("upper", "len", "lower") else 0.3)
text(
    "cat",
    others=maybe(lambda g, v: g.aligned_series(v.removesuffix(".str"), "text", "object"), 0.7),
    sep=maybe(of('"-"', '""'), 0.4),
    na_rep=maybe('"?"', 0.4),
)
text("center", width_=ints(0, 6), fillchar=FILL)
text("ljust", width_=ints(0, 6), fillchar=FILL)
text("rjust", width_=ints(0, 6), fillchar=FILL)
text("pad", width_=ints(0, 6), fillchar=FILL, side=maybe(of('"left"', '"right"', '"both"'), 0.6))
text("zfill", width_=ints(0, 6))
text(
    "contains",
    "na case",
    weight=0.8,
    pat_=of('"a"', '"b"', '"a.*b"', '"^a"', '"[0-9]"', '"."', '"A"'),
    regex=maybe(FLAG, 0.3),
)
text("contains", weight=0.1, pat_=of('"a"'), flags_=of("2"))
text("startswith", "na", weight=0.6, pat_=of('"a"', '("a", "b")', '""', '"B"'))
text("endswith", "na", weight=0.6, pat_=of('"a"', '("a", "b")', '""', '"B"'))
text("match", "na case", pat_=of('"a"', '"a|b"', '".*b"', '"[0-9]+"'))
text("fullmatch", "na case", pat_=of('"a"', '"a|b"', '".*b"', '"[0-9]+"'))
text("count", pat_=of('"a"', '"[ab]"', '"."'))
text("extract", pat_=of('"(a)"', '"(a)|(b)"', '"(?P<one>[a-z])"', '"([0-9]+)"'), expand=maybe(FLAG, 0.4))
text("find", sub_=PART, start=maybe(of("0", "1"), 0.3))
text("rfind", sub_=PART)
text("get", i_=ints(-2, 2))
text("index", sub_=of('""', '"a"'), start=maybe(of("0", "1"), 0.2))
text("rindex", sub_=of('""', '"a"'))
text("encode", weight=0.2, encoding_=of('"utf-8"', '"utf-16"'))
text("join", weight=0.3, sep_=of('"-"', '""'))
text("normalize", form_=of('"NFC"', '"NFKD"'))
text("partition", sep=maybe(of('"-"', '" "', '"b"'), 0.8), expand=maybe(FLAG, 0.2))
text("rpartition", sep=maybe(of('"-"', '" "', '"b"'), 0.8), expand=maybe(FLAG, 0.2))
text("removeprefix", prefix_=PART)
text("removesuffix", suffix_=PART)
text("repeat", repeats_=of("2", "0", "3"))
text(
    "replace",
    "case",
    weight=0.8,
    pat_=PART,
    repl_=of('"z"', '""', '"aa"'),
    n=maybe(of("1", "0", "2"), 0.2),
    regex=maybe(FLAG, 0.4),
)
text("replace", weight=0.2, pat_=of('"[ab]+"'), repl_=of('"z"', "lambda m: m[0].upper()"), regex_=of("True"))
#: Patterns that RE2 and Python read or match differently, or between which pandas chooses by the texts.
ENGINES = of(
    'r"\\b"',
    'r"\\d"',
    'r"\\w+"',
    '"$"',
    '"a$"',
    '"[[:alpha:]]"',
    '"a{,2}"',
    'r"\\B"',
    'r"^\\w|b"',
    'r"\\s"',
    '"a*"',
    '"(?i)A"',
)
for _name in ("contains", "match", "fullmatch", "count"):
    text(_name, weight=0.2, pat_=ENGINES)
text(
    "replace",
    weight=0.3,
    pat_=ENGINES,
    repl_=of('"z"', 'r"\\g<0>"', 'r"<\\0>"', 'r"\\\\"', '"$1"'),
    n=maybe(of("1", "2"), 0.2),
    regex_=of("True"),
)
text("replace", weight=0.1, pat_=PART, repl_=of('r"\\g<0>"', 'r"<\\0>"', 'r"\\\\"'), regex_=FLAG)
text(
    "split",
    pat=maybe(of('"-"', '" "', '"b"'), 0.7),
    n=maybe(of("1", "2"), 0.3),
    expand=maybe(of("True"), 0.7),
    regex=maybe(FLAG, 0.1),
)
text("rsplit", pat=maybe(of('"-"', '" "', '"b"'), 0.7), n=maybe(of("1", "2"), 0.3), expand=maybe(of("True"), 0.7))
text("slice", start=maybe(ints(-2, 2), 0.7), stop=maybe(ints(-2, 4), 0.7), step=maybe(of("1", "2", "-1"), 0.2))
text("slice_replace", start=maybe(ints(-2, 2), 0.7), stop=maybe(ints(-2, 4), 0.7), repl=maybe(of('"X"', '""'), 0.7))
for _name in ("strip", "lstrip", "rstrip"):
    text(_name, to_strip=maybe(of('"a"', '" "', '"ab"'), 0.4))
text("translate", table_=of('{97: "z"}', "{97: None}", 'str.maketrans("ab", "xy")'))
text("wrap", width_=of("2", "4"))
text("index", weight=0.1, sub_=of('""'))
text("findall", weight=0.15, pat_=of('"a"'))
text("get_dummies", weight=0.15)
text("join", weight=0.1, sep_=of('"-"'))


@operation("Series.str.split", "text", 0.3)
def _(g: Builder, v: str) -> str | None:
    return f'{v}.str.split("{g.pick("-ab ")}").str[{g.pick(["0", "1", "-1"])}]'


@operation("Series.str.slice", "text", 0.3)
def _(g: Builder, v: str) -> str | None:
    return f"{v}.str[{g.pick(['0', ':1', '-1', '1:', '::-1'])}]"


FREQ_TEXTS = ['"D"', '"h"', '"15min"']
FREQS = of('"D"', '"h"', '"15min"', '"s"', '"7D"', '"ms"')
_NONE_ON_DST = ("ambiguous", "nonexistent")


def time(name: str, usual: str = "", weight: float = 0.4, **drawn: object) -> None:
    method(f"Series.dt.{name}", "time", usual, weight=weight, through=_dt, **drawn)  # type: ignore[arg-type]


time("as_unit", unit_=of('"s"', '"ms"', '"us"', '"ns"'))
for _name in ("ceil", "floor", "round"):
    time(_name, freq_=FREQS)
time("day_name")
time("month_name")
time("isocalendar")
time("normalize")
time("strftime", date_format_=of('"%Y-%m-%d"', '"%H:%M"', '"%d/%m/%y %A"', '"%j"'))
time("tz_convert", tz_=of('"UTC"', '"Europe/Paris"', '"America/New_York"', "None"))
time("tz_localize", tz_=of('"UTC"', "None", '"Europe/Paris"'))
time("to_period", weight=0.1, freq_=of('"M"', '"D"'))
for _name in [
    "day",
    "day_of_week",
    "day_of_year",
    "dayofweek",
    "dayofyear",
    "days_in_month",
    "daysinmonth",
    "hour",
    "is_leap_year",
    "is_month_end",
    "is_month_start",
    "is_quarter_end",
    "is_quarter_start",
    "is_year_end",
    "is_year_start",
    "microsecond",
    "minute",
    "month",
    "nanosecond",
    "quarter",
    "second",
    "tz",
    "unit",
    "weekday",
    "year",
    "date",
    "time",
    "timetz",
]:
    attribute(f"Series.dt.{_name}", "time", 0.25, through=_dt)
for _name in ("days", "microseconds", "nanoseconds", "seconds", "components", "unit"):
    attribute(f"Series.dt.{_name}", "span", 0.4, through=_dt)
method("Series.dt.total_seconds", "span", "", weight=1, through=_dt)
method("Series.dt.as_unit", "span", "", weight=0.5, through=_dt, unit_=of('"s"', '"ms"', '"us"', '"ns"'))
for _name in ("ceil", "floor", "round"):
    method(f"Series.dt.{_name}", "span", "", weight=0.4, through=_dt, freq_=of('"D"', '"h"', '"min"'))


@operation("dates of rows", "time", 0.8)
def _(g: Builder, v: str) -> str | None:
    return g.pick(
        [
            f"{v} - {v}.min()",
            f"{v}.diff()",
            f"({v} - {v}.shift()).dt.total_seconds()",
            f"{v} + pd.DateOffset(months=1)",
            f'{v} + pd.Timedelta("36h")',
            f"{v}.max() - {v}.min()",
            f"{v}.dt.year.value_counts()",
            f"({v} - {v}.iloc[0]).dt.days",
            f"{v}.astype(str)",
            f"{v}.dt.date.value_counts()",
            f"({v} - {v}.min()).astype(str)",
        ]
    )


@operation("times that a zone has twice or never", "time", 0.5)
def _(g: Builder, v: str) -> str | None:
    day = g.pick(["2024-10-27", "2024-03-31"])
    times = f'(pd.Timestamp("{day} 00:30") + ({v} - {v}.min()) % pd.Timedelta("3h"))'
    options = 'ambiguous="NaT", nonexistent="NaT"'
    if g.chance(0.5):
        return f'{times}.dt.tz_localize("Europe/Paris", {options})'
    converted = f'{times}.dt.tz_localize("UTC").dt.tz_convert("Europe/Paris")'
    return f"{converted}.dt.{g.pick(['floor', 'ceil', 'round'])}({g.pick(FREQ_TEXTS)}, {options})"
