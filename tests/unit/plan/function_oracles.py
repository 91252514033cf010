"""Reference implementations of the plan's functions, in plain Python over lists, independent of the kernel.

A missing value is ``None``. Dates and times are integers in their unit. NaN is equal to itself and greater than every number,
except where a function skips it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cmp_to_key
from typing import Any

Values = Sequence[Any]
Options = dict[str, Any]


def is_nan(value: Any) -> bool:
    """Whether a value is a NaN."""
    return isinstance(value, float) and math.isnan(value)


def present(xs: Values) -> list[Any]:
    """The values that are not None."""
    return [x for x in xs if x is not None]


def compare(a: Any, b: Any) -> int:
    """-1, 0 or 1: NaN is the greatest."""
    if is_nan(a) or is_nan(b):
        return is_nan(a) - is_nan(b)
    return (a > b) - (a < b)


_KEY = cmp_to_key(compare)


def ascending(xs: Values) -> list[Any]:
    """The values that are not None, sorted."""
    return sorted(present(xs), key=_KEY)


def token(x: Any) -> Any:
    """A hashable key that is equal for equal values."""
    return "NaN" if is_nan(x) else (type(x).__name__ in ("str", "bytes"), x)


def _number(x: Any) -> Any:
    return float(x) if isinstance(x, Decimal) else x


# ---- aggregates ----


def total(xs: Values, options: Options) -> Any:
    values = present(xs)
    return sum(values) if len(values) >= options.get("min_count", 0) else None


def product(xs: Values, options: Options) -> Any:
    values = present(xs)
    return math.prod(values) if len(values) >= options.get("min_count", 0) else None


def _is_finite(values: Values) -> bool:
    return all(math.isfinite(x) for x in values)


def mean(xs: Values, options: Options) -> Any:
    values = [_number(x) for x in present(xs)]
    if not values:
        return None
    return float(sum(map(Fraction, values)) / len(values)) if _is_finite(values) else sum(values) / len(values)


def _moment(values: Values, power: int) -> float:
    middle = sum(map(Fraction, values)) / len(values)
    return float(sum((Fraction(x) - middle) ** power for x in values) / len(values))


def variance(xs: Values, options: Options) -> Any:
    values, ddof = [_number(x) for x in present(xs)], options.get("ddof", 1)
    if len(values) <= ddof:
        return None
    return _moment(values, 2) * len(values) / (len(values) - ddof) if _is_finite(values) else math.nan


def deviation(xs: Values, options: Options) -> Any:
    found = variance(xs, options)
    return None if found is None else math.sqrt(found)


def standard_error(xs: Values, options: Options) -> Any:
    found = deviation(xs, options)
    return None if found is None else found / math.sqrt(len(present(xs)))


def skewness(xs: Values, options: Options) -> Any:
    values = [_number(x) for x in present(xs)]
    n = len(values)
    if n < 3:
        return None
    if not _is_finite(values) or not (spread := _moment(values, 2)):
        return math.nan
    return _moment(values, 3) / spread**1.5 * math.sqrt(n * (n - 1)) / (n - 2)


def kurtosis(xs: Values, options: Options) -> Any:
    values = [_number(x) for x in present(xs)]
    n = len(values)
    if n < 4:
        return None
    if not _is_finite(values) or not (spread := _moment(values, 2)):
        return math.nan
    return ((n**2 - 1) * _moment(values, 4) / spread**2 - 3 * (n - 1) ** 2) / ((n - 2) * (n - 3))


def _products(xs: Values, ys: Values) -> tuple[int, list[float]]:
    """The number of rows with two values; and the sums of xx, xy and yy, where x and y are differences from the means."""
    pairs = [(Fraction(_number(x)), Fraction(_number(y))) for x, y in zip(xs, ys, strict=True) if None not in (x, y)]
    middles = [sum(values) / len(pairs) for values in zip(*pairs, strict=True)]
    offs = [[value - middle for value, middle in zip(pair, middles, strict=True)] for pair in pairs]
    return len(pairs), [float(sum(off[i] * off[j] for off in offs)) for i, j in ((0, 0), (0, 1), (1, 1))]


def covariance(xs: Values, ys: Values, options: Options) -> Any:
    if not _is_finite([_number(x) for x, y in zip(xs, ys, strict=True) if None not in (x, y)]):
        return math.nan if sum(None not in pair for pair in zip(xs, ys, strict=True)) > 1 else None
    n, (_, product, _) = _products(xs, ys)
    return product / (n - 1) if n > 1 else None


def correlation(xs: Values, ys: Values, options: Options) -> Any:
    pairs = [(_number(x), y) for x, y in zip(xs, ys, strict=True) if None not in (x, y)]
    if any(len(set(values)) < 2 for values in zip(*pairs, strict=True)) or not pairs:
        return None
    if not _is_finite([x for x, _ in pairs]):
        return math.nan
    _, (xx, xy, yy) = _products(xs, ys)
    return xy / math.sqrt(xx * yy)


def least(xs: Values, options: Options) -> Any:
    values = ascending(xs)
    return values[0] if values else None


def greatest(xs: Values, options: Options) -> Any:
    values = ascending(xs)
    return next((x for x in reversed(values) if not is_nan(x)), values[-1] if values else None)


def _place(extreme: Callable[..., Any]) -> Callable[..., Any]:
    def place(xs: Values, options: Options) -> Any:
        found = extreme(xs, options)
        return next((i for i, x in enumerate(xs) if x is not None and compare(x, found) == 0), None)

    return place


def _label(extreme: Callable[..., Any]) -> Callable[..., Any]:
    place = _place(extreme)

    def label(labels: Values, xs: Values, options: Options) -> Any:
        found = place(xs, options)
        return None if found is None else labels[found]

    return label


def distinct(xs: Values, options: Options) -> Any:
    return len({token(x) for x in (present(xs) if options.get("nulls", True) else xs)})


def quantile(xs: Values, options: Options) -> Any:
    values = [_number(x) for x in ascending(xs)]
    if not values:
        return None
    place = (len(values) - 1) * options["q"]
    low, high = values[math.floor(place)], values[math.ceil(place)]
    share = place - math.floor(place)
    match options.get("interpolation", "linear"):
        case "lower":
            return low
        case "higher":
            return high
        case "midpoint":
            return low if math.floor(place) == math.ceil(place) else (low + high) / 2
        case "nearest":
            return values[math.floor(place + 0.5)]
        case _:
            return low + (high - low) * share if share else low


def median(xs: Values, options: Options) -> Any:
    return quantile(xs, {"q": 0.5, "interpolation": "midpoint"})


def order_statistics(xs: Values, options: Options) -> Any:
    values = ascending(xs)
    if not values:
        return [None] * (2 * len(options["q"]))
    last = len(values) - 1
    places = [place for q in options["q"] for place in (math.floor(last * q), min(math.floor(last * q) + 1, last))]
    return [values[place] for place in places]


def first(xs: Values, options: Options) -> Any:
    values = present(xs) if options.get("skip_nulls", True) else list(xs)
    return values[0] if values else None


def last(xs: Values, options: Options) -> Any:
    return first(xs[::-1], options)


def nth(xs: Values, options: Options) -> Any:
    n = options["n"]
    return xs[n] if -len(xs) <= n < len(xs) else None


def terms(xs: Values, options: Options) -> list[float]:
    """A few floats whose exact sum is that of the values: the rounded sum, then the rounded remainder, and so on."""
    values = present(xs)
    if not _is_finite(values):
        return [sum(values)]
    rest, found = sum(map(Fraction, values)), []
    while rest:
        found.append(float(rest))
        rest -= Fraction(found[-1])
    zero = [-0.0 if all(math.copysign(1, x) < 0 for x in values) else 0.0]
    return found or (zero if values else [])


def joined_terms(xs: Values, options: Options) -> list[float]:
    return terms([x for part in present(xs) for x in part], options)


AGGREGATES: dict[str, Callable[..., Any]] = {
    "exact_sum": total,
    "exact_float_product": product,
    "exact_mean": mean,
    "exact_var": variance,
    "exact_std": deviation,
    "exact_sem": standard_error,
    "exact_skew": skewness,
    "exact_kurtosis": kurtosis,
    "exact_terms": terms,
    "joined_terms": joined_terms,
    "sum": total,
    "product": product,
    "float_product": product,
    "mean": mean,
    "var": variance,
    "std": deviation,
    "sem": standard_error,
    "skew": skewness,
    "kurtosis": kurtosis,
    "min": least,
    "max": greatest,
    "arg_min": _place(least),
    "arg_max": _place(greatest),
    "covariance": covariance,
    "correlation": correlation,
    "label_of_min": _label(least),
    "label_of_max": _label(greatest),
    "n_unique": distinct,
    "count": lambda xs, options: len(present(xs)),
    "null_count": lambda xs, options: len(xs) - len(present(xs)),
    "any": lambda xs, options: any(present(xs)),
    "all": lambda xs, options: all(present(xs)),
    "quantile": quantile,
    "median": median,
    "order_statistics": order_statistics,
    "first": first,
    "last": last,
    "nth": nth,
    "str_join": lambda xs, options: options["separator"].join(present(xs)),
    "arg_first": lambda xs, options: next((i for i, x in enumerate(xs) if x is not None), None),
    "arg_last": lambda xs, options: next((i for i in reversed(range(len(xs))) if xs[i] is not None), None),
}


# ---- windows: a list of one value a row ----


def _running(step: Callable[[Any, Any], Any]) -> Callable[..., list[Any]]:
    def run(xs: Values, options: Options) -> list[Any]:
        so_far, found = None, []
        for x in xs:
            if x is not None:
                so_far = x if so_far is None else step(so_far, x)
            found.append(None if x is None else so_far)
        return found

    return run


def cum_sum(xs: Values, options: Options) -> list[Any]:
    sums = _running(lambda a, b: a + b)(xs, options)
    if not options.get("compensated", False):
        return sums
    infinite = [isinstance(x, float) and not math.isfinite(x) for x in sums]
    return [math.nan if x is not None and any(infinite[:i]) else x for i, x in enumerate(sums)]


def cum_count(xs: Values, options: Options) -> list[Any]:
    return [len(present(xs[: i + 1])) for i in range(len(xs))]


def shift(xs: Values, options: Options, filling: Any = None) -> list[Any]:
    n = options.get("periods", 1)
    return [xs[i - n] if 0 <= i - n < len(xs) else filling for i in range(len(xs))]


def difference(xs: Values, options: Options) -> list[Any]:
    pairs = zip(xs, shift(xs, options), strict=True)
    return [None if x is None or y is None else x - y for x, y in pairs]


def forward_fill(xs: Values, options: Options) -> list[Any]:
    limit = options.get("limit")
    found: list[Any] = []
    for i, x in enumerate(xs):
        known = [j for j in range(i) if xs[j] is not None]
        near = x is None and known and (limit is None or i - known[-1] <= limit)
        found.append(xs[known[-1]] if near else x)
    return found


def backward_fill(xs: Values, options: Options) -> list[Any]:
    return forward_fill(xs[::-1], options)[::-1]


def interpolate(xs: Values, options: Options) -> list[Any]:
    limit, direction, area = options.get("limit"), options.get("direction", "forward"), options.get("area")
    found: list[Any] = []
    for i, x in enumerate(xs):
        before = [j for j in range(i) if xs[j] is not None]
        after = [j for j in range(i + 1, len(xs)) if xs[j] is not None]
        beyond = not before or not after
        forward = bool(before) and (limit is None or i - before[-1] <= limit)
        backward = bool(after) and (limit is None or after[0] - i <= limit)
        reached = {"forward": forward, "backward": backward, "both": forward or backward}[direction]
        if x is not None or not reached or (area is not None and beyond is (area == "inside")):
            found.append(x)
            continue
        one, other = (before or after)[-1 if before else 0], (after or before)[0 if after else -1]
        if beyond or one == other:
            found.append(xs[one])
            continue
        slope = (xs[other] - xs[one]) / (other - one)
        ways = [slope * (i - one) + xs[one], slope * (i - other) + xs[other]]
        ways += [xs[one]] if xs[one] == xs[other] else []
        found.append(next((way for way in ways if not is_nan(way)), None))
    return found


def _rank(method: str) -> Callable[..., list[Any]]:
    def rank(xs: Values, options: Options) -> list[Any]:
        sign = -1 if options.get("descending", False) else 1
        found: list[Any] = []
        for i, x in enumerate(xs):
            if x is None:
                found.append(None)
                continue
            order = [sign * compare(y, x) for y in present(xs)]
            before, ties = sum(c < 0 for c in order), sum(c == 0 for c in order)
            earlier = sum(y is not None and compare(y, x) == 0 for y in xs[:i])
            smaller = {token(y) for y in present(xs) if sign * compare(y, x) < 0}
            found.append(
                {
                    "min": before + 1,
                    "max": before + ties,
                    "average": before + (ties + 1) / 2,
                    "ordinal": before + earlier + 1,
                    "dense": len(smaller) + 1,
                }[method]
            )
        return found

    return rank


def _marks(test: Callable[[list[Any], int], bool]) -> Callable[..., list[Any]]:
    def mark(xs: Values, options: Options) -> list[Any]:
        tokens = [token(x) for x in xs]
        return [test(tokens, i) for i in range(len(tokens))]

    return mark


def _finite(xs: Values) -> list[Any]:
    """The values of a window; pandas' windows treat infinities as missing values."""
    return [x for x in xs if x is not None and math.isfinite(x)]


def _moved(windows: list[list[Any]], options: Options, least: int) -> list[Any]:
    function = {"mean": mean, "sum": total, "min": least_of, "max": most_of}[options.get("statistic", "mean")]
    return [function(window, {}) if len(window) >= least else math.nan for window in map(_finite, windows)]


def least_of(xs: Values, options: Options) -> Any:
    return min(xs) if xs else math.nan


def most_of(xs: Values, options: Options) -> Any:
    return max(xs) if xs else math.nan


def rolling(xs: Values, options: Options) -> list[Any]:
    window = dict(options["window"])
    ahead = (window["window"] - 1) // 2 if window.get("center") else 0
    ends = [i + 1 + ahead for i in range(len(xs))]
    windows = [list(xs[max(end - window["window"], 0) : end]) for end in ends]
    return _moved(windows, options, window.get("min_periods", window["window"]))


def expanding(xs: Values, options: Options) -> list[Any]:
    return _moved([list(xs[: i + 1]) for i in range(len(xs))], options, dict(options["window"]).get("min_periods", 1))


def weighted(xs: Values, options: Options) -> list[Any]:
    decay = 1 - dict(options["window"])["alpha"]
    found = []
    for i in range(len(xs)):
        rows = [(decay ** (i - j), x) for j, x in enumerate(xs[: i + 1]) if _finite([x])]
        found.append(sum(w * x for w, x in rows) / sum(w for w, _ in rows) if rows else math.nan)
    return found


WINDOWS: dict[str, Callable[..., list[Any]]] = {
    "cum_sum": cum_sum,
    "cum_prod": _running(lambda a, b: a * b),
    "exact_cum_sum": cum_sum,
    "exact_cum_prod": _running(lambda a, b: a * b),
    "cum_min": _running(lambda a, b: least([a, b], {})),
    "cum_max": _running(lambda a, b: greatest([a, b], {})),
    "cum_count": cum_count,
    "shift": shift,
    "diff": difference,
    "rolling": rolling,
    "expanding": expanding,
    "ewm": weighted,
    "forward_fill": forward_fill,
    "backward_fill": backward_fill,
    "interpolate": interpolate,
    "rank": _rank("average"),
    **{f"rank_{method}": _rank(method) for method in ("min", "max", "average", "ordinal", "dense")},
    "is_first_distinct": _marks(lambda tokens, i: tokens[i] not in tokens[:i]),
    "is_last_distinct": _marks(lambda tokens, i: tokens[i] not in tokens[i + 1 :]),
    "is_duplicated": _marks(lambda tokens, i: tokens.count(tokens[i]) > 1),
}


# ---- row-wise functions: no argument is None ----

VALUES: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "abs": abs,
    "eq": lambda a, b: compare(a, b) == 0,
    "ne": lambda a, b: compare(a, b) != 0,
    "lt": lambda a, b: compare(a, b) < 0,
    "le": lambda a, b: compare(a, b) <= 0,
    "gt": lambda a, b: compare(a, b) > 0,
    "ge": lambda a, b: compare(a, b) >= 0,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "not": lambda a: not a,
    "is_null": lambda a: False,
    "is_nan": is_nan,
    "is_not_nan": lambda a: not is_nan(a),
    "fill_null": lambda a, b: a,
    "fill_nan": lambda a, b: b if is_nan(a) else a,
    "coalesce": lambda a, b: a,
    "cast": lambda a: a,
    "when": lambda a, b, c: b if a else c,
    "is_between": lambda a, b, c: compare(b, a) <= 0 <= compare(c, a),
    "concat_str": lambda a, b: a + b,
    "str_contains": lambda a, b: b in a,
    "str_starts_with": str.startswith,
    "str_ends_with": str.endswith,
    "str_slice": lambda a: a[1:],
    "str_len": len,
    "str_split": str.split,
    "str_find_all": list,
    "list_len": len,
    "list_slice": lambda a: a[1:-1],
    "list_contains": lambda a: 0.0 in a,
    "list_get": lambda a: a[0] if a else None,
}
