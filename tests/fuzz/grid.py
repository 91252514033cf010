"""Compares every combination of a row order, a derived column and an ending: ``python -m tests.fuzz grid``.

Errors occur in combinations: for example, a window needs the row order below an operator that does not.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tests.fuzz import oracle
from tests.fuzz.execution import Difference
from tests.fuzz.modes import MODES
from tests.fuzz.programs import Column, Program, Step, Table

#: The number of rows of the frame ``a``.
ROWS = 40

ORDERS: tuple[str, ...] = (
    "a",
    'a.sort_values("t", kind="stable")',
    'a.sort_values("t", ascending=False, kind="stable")',
    'a.sort_values(["k", "t"], ascending=[False, True])',
    "a.sort_index(ascending=False)",
    "a[::-1]",
    'a.merge(b, on="k")',
    'a.merge(b, on="k", how="left", sort=True)',
    'pd.concat([a, a.sort_values("t", kind="stable")], ignore_index=True)',
    'a.drop_duplicates("t", keep="last")',
    'a.nlargest(30, "t", keep="last")',
    'a[a["x"] > 0].sort_values("s", kind="stable", ignore_index=True)',
    "a.sample(frac=1, random_state=3)",
    'a.set_index("t").sort_index(kind="stable").reset_index()',
    'a.groupby("k", as_index=False)[["t", "x", "s"]].head(6)',
)
DERIVED: tuple[str, ...] = (
    'f["x"]',
    "2",
    'f["x"].max()',
    'f["x"].cumsum()',
    'f["x"].shift()',
    'f["x"].diff()',
    'f["x"].rank(method="first")',
    'f["x"].where(f["x"] > 1).ffill()',
    'f["x"].cumsum().shift(-1)',
    'f["x"].duplicated().astype("int64")',
    'f.groupby("k")["x"].cumsum()',
    'f.groupby("k")["x"].shift()',
    'f.groupby("k")["x"].transform("first")',
    'f.groupby("k").cumcount()',
    "np.arange(len(f))",
    'f.duplicated("x").astype("int64") + f.groupby("k")["x"].transform("first")',
    'f.groupby("s")["x"].shift().fillna(0) + f.groupby("k")["t"].cumsum()',
    'f["x"].rank(method="first") - f.groupby("k")["x"].transform("last") + f["x"].shift()',
)
ENDINGS: tuple[str, ...] = (
    "f",
    'f["w"]',
    'f["w"].sum()',
    'f["w"].mean()',
    'f["w"].std()',
    'f["w"].nunique()',
    'f["w"].iloc[0]',
    'f["w"].iloc[-3:].sum()',
    'f["w"].idxmax()',
    'f["w"].isna().sum()',
    'f["w"].cumsum().max()',
    'f["w"].diff().abs().sum()',
    'f["w"].shift().mean()',
    '(f["w"].diff() > 0).sum()',
    'f["w"].is_monotonic_increasing',
    'f["w"].value_counts()',
    'f.groupby("k")["w"].sum()',
    'f.groupby("k")["w"].agg(["first", "last", "count"])',
    'f.groupby("k")["w"].cumsum()',
    'f.groupby("k")["w"].shift().sum()',
    'f.groupby("s", dropna=False)["w"].transform("sum")',
    'f[f["w"] == f["w"].max()]',
    'f.sort_values("w", kind="stable")["x"].head(5)',
    'f.drop_duplicates("w")["t"].sum()',
    'f[f["w"].notna() & (f["x"] > f["w"].shift().fillna(0))]["x"].cumsum()',
)


@dataclass(frozen=True, slots=True)
class GridCase:
    """One combination: the numbers of an order, a derived column and an ending."""

    order: int
    derived: int
    ending: int

    def program(self, tables: tuple[Table, ...]) -> Program:
        """The program of this combination."""
        lines = (
            f"f = {ORDERS[self.order]}",
            f"f = f.assign(w={DERIVED[self.derived]})",
            f"r0 = {ENDINGS[self.ending]}",
        )
        step = Step("\n".join(lines), "grid", "", ("a", "b"))
        return Program(tables, (step,), "last", f"grid {self.order}.{self.derived}.{self.ending}")


def tables(source: str = "memory") -> tuple[Table, ...]:
    """The frames: ``a`` with ties, missing values and a permutation; ``b`` with keys, one of them twice."""
    rng = random.Random(15)
    floats = ["0.5", "1.5", "-2.25", "3.0", "-0.75", "10.0", "1.0", "np.nan", "2.0"]
    a = (
        Column('"k"', "int64", tuple(rng.choice(["1", "2", "3", "4"]) for _ in range(ROWS))),
        Column('"t"', "int64", tuple(map(str, rng.sample(range(ROWS // 2), ROWS // 2) * 2))),
        Column('"x"', "float64", tuple(rng.choice(floats) for _ in range(ROWS))),
        Column('"s"', "str", tuple(rng.choice(['"a"', '"b"', '"c"', "None"]) for _ in range(ROWS))),
    )
    b = (
        Column('"k"', "int64", ("3", "1", "2", "3", "7")),
        Column('"z"', "float64", ("1.5", "2.5", "np.nan", "4.0", "0.5")),
    )
    return Table("a", a, (), None, source, ROWS), Table("b", b, (), None, source, 5)


def cases() -> Iterator[GridCase]:
    """All combinations."""
    for order, derived, ending in itertools.product(range(len(ORDERS)), range(len(DERIVED)), range(len(ENDINGS))):
        yield GridCase(order, derived, ending)


def differences(case: GridCase, mode: str, source: str = "memory") -> list[Difference]:
    """The differences in one combination."""
    return oracle.check(case.program(tables(source)), MODES[mode])


def run(mode: str, source: str = "memory", every: int = 1, most: int = 30) -> int:
    """Run the grid, print the differences, and return how many combinations differ.

    Parameters
    ----------
    mode, source
        The mode in which Craton runs, and the source of the frames: memory, parquet or csv.
    every
        Run only every n-th combination.
    most
        The number of differences that are printed in full.
    """
    started = time.time()
    given = tables(source)
    wrong: list[tuple[GridCase, Difference]] = []
    count = 0
    for case in itertools.islice(cases(), 0, None, every):
        program = case.program(given)
        found = oracle.check(program, MODES[mode])
        count += 1
        if count % 500 == 0:
            oracle.tidy()
        if found and not found[0].only_message:
            wrong.append((case, found[0]))
            if len(wrong) <= most:
                print(f"# {found[0].kind}: {found[0].what[:200]}\n{program.steps[0].code}\n", flush=True)
    for title, texts, field in (("row order", ORDERS, 0), ("column", DERIVED, 1), ("ending", ENDINGS, 2)):
        numbers = Counter((case.order, case.derived, case.ending)[field] for case, _ in wrong)
        for number, times in numbers.most_common():
            print(f"{times:>5} differ with the {title} {texts[number]}")
    print(f"{count} combinations, mode {mode}, {source}, {time.time() - started:.0f} s: {len(wrong)} differ")
    return len(wrong)
