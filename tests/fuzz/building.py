"""Builds random programs step by step. Each candidate statement runs under pandas first, so that most statements do not raise.

An operation has a function ``(builder, variable) -> text``. The text is an expression, whose value is assigned to a new variable, or a
:class:`Statement`, which is run for its effect; None if the operation does not apply. Operations are registered by the type of their
receiver.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas

from tests.fuzz import frames
from tests.fuzz.programs import Program, Step, Table, compiled

_NAME = re.compile(r"[A-Za-z_]\w*")
#: Matches labels that are floats with so many digits that the last ones may differ.
_INEXACT = re.compile(r"\d\.\d{6}")
#: Matches calls that take pandas seconds if there are thousands of groups.
_SLOW = re.compile(
    r"groupby.*(describe|apply|filter|lambda|value_counts|for name)|\b[hv]\d+\.(describe|apply|filter)\("
)
#: Results with more rows are dropped, with the steps that made them.
MOST_ROWS = 30_000
#: So are results with more columns, because planning thousands of columns takes too long.
MOST_COLUMNS = 400
#: And results with more bytes: a column of 10,000 texts, each of which joins 10,000 others, has 2 GB.
MOST_BYTES = 64 << 20


class Statement(str):
    """The text of one or more statements that are run for their effect."""

    __slots__ = ()


Make = Callable[["Builder", str], "str | None"]


@dataclass(frozen=True, slots=True)
class Operation:
    """A generator of steps.

    Parameters
    ----------
    name
        The call's name with its family, as in ``docs/native.md``: ``DataFrame.shift``, ``Series.str.upper``.
    on
        The type of its receiver: frame, series, text, time, frame_groups, series_groups, any.
    make
        Returns the text of a step.
    weight
        Its relative frequency.
    """

    name: str
    on: str
    make: Make
    weight: float = 1.0


OPERATIONS: dict[str, list[Operation]] = {}


def operation(name: str, on: str, weight: float = 1.0) -> Callable[[Make], Make]:
    """Decorate the function of an operation, and register it."""

    def register(make: Make) -> Make:
        OPERATIONS.setdefault(on, []).append(Operation(name, on, make, weight))
        return make

    return register


def register(name: str, on: str, make: Make, weight: float = 1.0) -> None:
    """Register an operation."""
    OPERATIONS.setdefault(on, []).append(Operation(name, on, make, weight))


def family_of(dtype: Any) -> str:
    """The family of a dtype, by which operations are chosen: number, bool, text, time, span (durations), category, object."""
    if isinstance(dtype, pandas.CategoricalDtype):
        return "category"
    api = pandas.api.types
    if api.is_bool_dtype(dtype):
        return "bool"
    if api.is_numeric_dtype(dtype):
        return "number"
    if api.is_datetime64_any_dtype(dtype):
        return "time"
    if api.is_timedelta64_dtype(dtype):
        return "span"
    if isinstance(dtype, pandas.StringDtype) or "string" in str(dtype):
        return "text"
    return "object"


class Builder:
    """The state of a program under construction.

    Parameters
    ----------
    rng
        The source of all random choices.
    namespace
        The globals of the statements, which run in it under pandas.
    without
        A regular expression; matching statements are not generated.
    """

    def __init__(self, rng: random.Random, namespace: dict[str, Any], without: str = "") -> None:
        self.rng = rng
        self.without = re.compile(without) if without else None
        self.env = namespace
        self.tables: list[Table] = []
        self.steps: list[Step] = []
        self.emitted: Counter[tuple[str, str]] = Counter()
        self._parameters: list[tuple[str, str]] = []
        self.errors: dict[int, BaseException] = {}
        self._number = 0
        self._kinds: dict[str, str] = {}

    # -- drawing ------------------------------------------------------------------------------------------------------

    def chance(self, share: float) -> bool:
        """True with the given probability."""
        return self.rng.random() < share

    def pick(self, items: Iterable[Any]) -> Any:
        """One of the items."""
        return self.rng.choice(list(items))

    def some(self, items: Sequence[Any], most: int = 3) -> list[Any]:
        """One or more distinct items."""
        return self.rng.sample(list(items), self.rng.randint(1, max(1, min(most, len(items)))))

    def quoted(self, *texts: str) -> str:
        """One of the texts, as a Python string literal."""
        return f'"{self.pick(texts)}"'

    def integer(self, least: int = -3, most: int = 4) -> str:
        """An integer, as text."""
        return str(self.rng.randint(least, most))

    def note_parameter(self, name: str, parameter: str) -> None:
        """Record that a call was given a parameter."""
        self._parameters.append((name, parameter))

    # -- variables ----------------------------------------------------------------------------------------------------

    def variable(self, kind: str, recent: float = 0.6) -> str | None:
        """A variable of a kind: with probability ``recent`` the newest, else any; None if there is none."""
        names = [name for name, what in self._kinds.items() if what == kind or kind == "any"]
        if not names:
            return None
        return names[-1] if self.chance(recent) else self.pick(names)

    def kind(self, name: str) -> str:
        """The kind of a variable: frame, series, frame_groups, series_groups, index or other."""
        return self._kinds[name]

    def value(self, name: str) -> Any:
        """The value of a variable, or of an expression, under pandas; None if it raises."""
        return self.env[name] if name in self.env else self.object_of(name)

    def columns(self, v: str, *families: str) -> list[str]:
        """The labels of a frame's columns, as text; if families are given, of columns with these dtypes."""
        frame = self.value(v)
        found: list[str] = []
        if not isinstance(frame, pandas.DataFrame):
            return found
        for label, dtype in zip(frame.columns, frame.dtypes, strict=True):
            if not families or family_of(dtype) in families or ("object" in families and dtype.kind == "O"):
                found.append(text_of(label))
        return [text for text in found if text and not _INEXACT.search(text)]

    def column(self, v: str, *families: str) -> str | None:
        """The label of a column, as text."""
        found = self.columns(v, *families)
        return self.pick(found) if found else None

    def key(self, v: str) -> str | None:
        """The label of a column, as text; usually one that has few distinct values."""
        found = self.columns(v)
        if not found:
            return None
        likely = [text for text in found if text in ('"k"', '"g"')]
        return self.pick(likely) if likely and self.chance(0.6) else self.pick(found)

    def keys(self, v: str, most: int = 2) -> str | None:
        """The label of a key, or a list of keys, as text."""
        one = self.key(v)
        if one is None or self.chance(0.65):
            return one
        return f"[{', '.join(dict.fromkeys([one, *self.some(self.columns(v), most)]))}]"

    def column_list(self, v: str, *families: str, most: int = 3) -> str | None:
        """A list of some column labels, as text."""
        found = self.columns(v, *families)
        return f"[{', '.join(self.some(found, most))}]" if found else None

    def column_of(self, v: str, *families: str) -> str | None:
        """A column of a frame as a series, as text."""
        label = self.column(v, *families)
        return None if label is None else f"{v}[{label}]"

    def aligned_series(self, v: str, *families: str) -> str | None:
        """A series with the row labels of a variable, as text; sometimes a series with other labels."""
        index = getattr(self.value(v), "index", None)
        names = [
            name
            for name, kind in self._kinds.items()
            if kind in ("frame", "series") and (self.env[name].index is index or self.env[name].index.equals(index))
        ]
        if self.chance(0.1):
            names = [name for name, kind in self._kinds.items() if kind in ("frame", "series")]
        self.rng.shuffle(names)
        for name in names:
            if self._kinds[name] == "frame":
                if (found := self.column_of(name, *families)) is not None:
                    return found
            elif not families or family_of(self.env[name].dtype) in families:
                return name
        return None

    def similar_value(self, series: Any) -> str:
        """A value of a series, or a constant of the same family, as text."""
        if len(series) and self.chance(0.65):
            value = series.iloc[self.rng.randrange(len(series))]
            if isinstance(value, float) and value == value and (value * 1024) % 1:
                value = round(float(value), 2)  # because the last digits may differ
            text = text_of(value)
            if text:
                return text
        return self.constant(family_of(series.dtype))

    def constant(self, family: str = "") -> str:
        """A constant of a family, as text."""
        family = family or self.pick(["number", "number", "text", "bool", "time", "span"])
        if family in ("text", "category", "object"):
            return self.pick(['"a"', '"b"', '""', '"zz"', '"lo"'])
        if family == "time":
            return self.pick(
                [
                    'pd.Timestamp("2000-02-29 12:30")',
                    'pd.Timestamp("2020-12-31")',
                    '"2020-01-01"',
                    'pd.Timestamp("2020-12-31 00:00:00.000000001")',
                    'np.datetime64("2020-01-01T00:00:00.001")',
                ]
            )
        if family == "span":
            return self.pick(
                [
                    'pd.Timedelta("1D")',
                    'pd.Timedelta("-2h")',
                    'pd.Timedelta("90.0000015s")',
                    'pd.Timedelta(1, "ns")',
                    'np.timedelta64(90001, "ms")',
                ]
            )
        if family == "bool":
            return self.pick(["True", "False"])
        if self.chance(0.06):
            return self.pick(["np.uint8(255)", "np.int64(-7)", "300", "np.float32(0.5)", "np.bool_(True)"])
        return self.pick(["0", "1", "2", "-1", "0.5", "3", "-2.25"])

    # -- building -----------------------------------------------------------------------------------------------------

    def add_table(self, table: Table) -> None:
        """Add a table to the program."""
        for statement in table.statements():
            exec(compiled(statement), self.env)
        self.tables.append(table)
        self._kinds[table.name] = "frame"

    def try_operation(self, chosen: Operation) -> bool:
        """Try to add a step of an operation; return whether it was added.

        Most steps that raise under pandas are rejected. Some are kept, because Craton must raise the same errors.
        """
        v = self._receiver(chosen.on)
        if v is None:
            return False
        self._parameters = []
        try:
            text = chosen.make(self, v)
        except Exception:  # the operation does not apply to this receiver
            text = None
        if text is None:
            return False
        statements = text.split("\n") if isinstance(text, Statement) else [text]
        last = statements[-1]
        target = ""
        if not isinstance(text, Statement):
            self._number += 1
            target = f"v{self._number}"
            last = f"{target} = {last}"
        code = "\n".join([*statements[:-1], last])
        if self.without is not None and self.without.search(code):
            return False
        if any(table.grow is not None for table in self.tables) and _SLOW.search(code):
            return False
        try:
            exec(compiled(code), self.env)
        except Exception as error:
            if not self.chance(0.06):
                return False
            target_kind = None
            self.errors[len(self.steps)] = error
        else:
            self._bind(statements)
            target_kind = self._kind_of(target)
            if target_kind == "unusable":
                del self.env[target]
                return False
        named = set(_NAME.findall(code))
        uses = tuple(name for name in self.env if name != target and name in named)
        self.steps.append(Step(code, chosen.name, target, uses))
        if target_kind:
            self._kinds[target] = target_kind
        self.emitted[chosen.name, ""] += 1
        for pair in dict.fromkeys(self._parameters):
            self.emitted[pair] += 1
        return True

    def _bind(self, statements: list[str]) -> None:
        """Record the variables that the statements of a situation bind."""
        for statement in statements[:-1] if len(statements) > 1 else []:
            name = statement.partition(" = ")[0]
            if name.isidentifier() and (kind := self._kind_of(name)) not in (None, "unusable"):
                self._kinds[name] = kind

    def _receiver(self, on: str) -> str | None:
        if on == "situation":
            return next(iter(self._kinds))
        if on.endswith("_groups"):
            return self.variable(on) or next(iter(self._kinds))
        if on in ("text", "time", "span", "number_series"):
            families = {"text": ("text", "object"), "time": ("time",), "span": ("span",), "number_series": ("number",)}
            return self._series_of(*families[on])
        if (on == "series" and self.chance(0.5)) or (on == "series" and self.variable("series") is None):
            frame = self.variable("frame")
            return None if frame is None else self.column_of(frame)
        return self.variable(on)

    def _series_of(self, *families: str) -> str | None:
        names = [
            name
            for name, kind in self._kinds.items()
            if kind == "series" and family_of(self.env[name].dtype) in families
        ]
        if names and self.chance(0.5):
            return self.pick(names)
        for _ in range(3):
            frame = self.variable("frame")
            if frame is not None and (found := self.column_of(frame, *families)) is not None:
                return found
        return None

    def object_of(self, text: str) -> Any:
        """The value of an expression under pandas; None if it raises."""
        try:
            return eval(compile(text, "<program>", "eval"), self.env)
        except Exception:
            return None

    def _kind_of(self, name: str) -> str | None:
        if not name:
            return None
        value = self.env[name]
        if isinstance(value, pandas.DataFrame):
            if value.size > 8 * MOST_ROWS or len(value) > MOST_ROWS or value.shape[1] > MOST_COLUMNS:
                return "unusable"
            try:
                value.dtypes  # noqa: B018 - raises for frames that pandas' operators return if labels are repeated
            except AssertionError:
                return "unusable"
            return "unusable" if value.memory_usage(index=False).sum() > MOST_BYTES else "frame"
        if isinstance(value, pandas.Series):
            return "unusable" if len(value) > MOST_ROWS or value.nbytes > MOST_BYTES else "series"
        if isinstance(value, pandas.core.groupby.DataFrameGroupBy):
            return "frame_groups"
        if isinstance(value, pandas.core.groupby.SeriesGroupBy):
            return "series_groups"
        if isinstance(value, pandas.Index):
            return "index"
        return "other"

    def program(self, label: str) -> Program:
        """The finished program."""
        evaluation_order = "last" if self.chance(0.7) else "first"
        return Program(tuple(self.tables), tuple(self.steps), evaluation_order, label)


def text_of(value: Any) -> str:
    """A scalar as a Python expression; empty for types that have none here."""
    if value is None:
        return "None"
    if value is pandas.NA:
        return "pd.NA"
    if value is pandas.NaT:
        return "pd.NaT"
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (int, np.integer)) and not isinstance(value, np.timedelta64):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        if value != value:
            return "np.nan"
        return repr(float(value)) if np.isfinite(value) else ("np.inf" if value > 0 else "-np.inf")
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if isinstance(value, pandas.Timestamp):
        return (
            f'pd.Timestamp("{value.isoformat()}")' if value.tz is None else f'pd.Timestamp("{value}", tz="{value.tz}")'
        )
    if isinstance(value, pandas.Timedelta):
        return f'pd.Timedelta("{value}")'
    if isinstance(value, tuple):
        inner = [text_of(item) for item in value]
        return f"({', '.join(inner)},)" if all(inner) else ""
    return ""


def weighted(rng: random.Random, choices: Sequence[Operation]) -> Operation:
    """One of the operations, drawn by weight."""
    return rng.choices(choices, [choice.weight for choice in choices])[0]


#: The relative frequency of each type of receiver.
SHARES = {
    "frame": 34,
    "series": 26,
    "number_series": 8,
    "text": 7,
    "time": 5,
    "span": 1,
    "frame_groups": 12,
    "series_groups": 14,
    "any": 12,
    "situation": 16,
}


def build(
    seed: str, namespace: dict[str, Any], without: str = "", sources: tuple[str, ...] = ()
) -> tuple[Program, Builder]:
    """Generate a random program.

    Parameters
    ----------
    seed
        Equal seeds generate equal programs.
    namespace
        The globals of its statements.
    without
        A regular expression; matching statements are not generated.
    sources
        The possible sources of its tables: memory, parquet, csv.
    """
    rng = random.Random(seed)
    builder = Builder(rng, namespace, without)
    sources = sources or ("memory", "memory", "memory", "memory", "parquet", "csv")
    first = frames.table(rng, "a", None, sources)
    builder.add_table(first)
    if rng.random() < 0.3:
        builder.add_table(frames.table(rng, "b", first, sources))
    length = rng.choice([1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7, 8, 10, 12])
    kinds = [kind for kind in SHARES if OPERATIONS.get(kind)]
    for _ in range(length * 6):
        if len(builder.steps) >= length:
            break
        kind = rng.choices(kinds, [SHARES[kind] for kind in kinds])[0]
        builder.try_operation(weighted(rng, OPERATIONS[kind]))
    return builder.program(seed), builder
