"""Programs as data: tables and steps, which can be printed as a Python program that runs on its own.

A step is a statement, or several lines. It runs with ``pd`` bound to pandas or to ``craton.pandas``, so both run the same text.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from types import CodeType

#: The first lines of every program, except for the binding of ``pd``.
PRELUDE = """\
import copy, datetime, pickle, tempfile
from concurrent.futures import ThreadPoolExecutor
import numpy as np, pandas, pyarrow as pa
"""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Parameters
    ----------
    name
        The label, as a Python expression.
    dtype
        The dtype as text, ``object``, or arguments of ``pd.Categorical``, which start with ``categories=``.
    values
        A Python expression per row.
    """

    name: str
    dtype: str
    values: tuple[str, ...]

    def array(self) -> str:
        """The expression of an array with the values."""
        values = f"[{', '.join(self.values)}]"
        if self.dtype.startswith("categories="):
            return f"pd.Categorical({values}, {self.dtype})"
        if self.dtype == "object":
            return f"np.array({values}, dtype=object)"
        # In Arrow's floats, NaN is a number and distinct from missing values.
        if self.dtype == "double[pyarrow]" and "np.nan" in self.values:
            return f"pd.array(pa.array({values}, pa.float64(), from_pandas=False), dtype='double[pyarrow]')"
        return f'pd.array({values}, dtype="{self.dtype}")'


@dataclass(frozen=True, slots=True)
class Table:
    """A frame that a program starts from.

    Parameters
    ----------
    name
        The name of its variable.
    columns
        Its columns, of equal lengths.
    index
        The levels of its row labels: none for a default index, several for a MultiIndex. The values of a level of dtype
        ``range`` are the start and step of a RangeIndex, those of a level of dtype ``dates`` the start and frequency.
    grow
        The seed and number of rows with which a larger table is sampled from these rows. It gets a column ``u`` of unique numbers.
    source
        ``memory``; ``parquet`` or ``csv``, a file that pandas writes and ``pd`` reads; ``parts``, a folder of Parquet files.
    rows
        The number of rows before it grows.
    """

    name: str
    columns: tuple[Column, ...]
    index: tuple[Column, ...] = ()
    grow: tuple[int, int] | None = None
    source: str = "memory"
    rows: int = 0

    def statements(self) -> Iterator[str]:
        """The statements that create the table."""
        name, module = self.name, "pd" if self.source == "memory" else "pandas"
        data = ", ".join(f"{column.name}: {column.array()}" for column in self.columns)
        index = self._index()
        made = f"pd.DataFrame({{{data}}}{f', index={index}' if index else ''})"
        if not self.columns and not index:
            made = f"pd.DataFrame(index=range({self.rows}))"
        if self.grow is not None:
            seed, rows = self.grow
            picked = f"np.random.default_rng({seed}).integers(0, {max(self.rows, 1)}, {rows})"
            made = f"{made}.take({picked})" + (".reset_index(drop=True)" if not index else "")
            made = f"{made}.assign(u=np.random.default_rng({seed}).permutation({rows}))"
        made = made.replace("pd.", f"{module}.")
        if self.source == "memory":
            yield f"{name} = {made}"
        elif self.source == "parquet":
            yield f'{made}.to_parquet(f"{{folder}}/{name}.parquet")'
            yield f'{name} = pd.read_parquet(f"{{folder}}/{name}.parquet")'
        elif self.source == "parts":
            yield f'__import__("os").mkdir(f"{{folder}}/{name}"); parts = {made}'
            for i in range(3):
                rows = f"parts.iloc[len(parts) * {i} // 3 : len(parts) * {i + 1} // 3]"
                yield f'{rows}.to_parquet(f"{{folder}}/{name}/{i}.parquet", index=False)'
            yield f'{name} = pd.read_parquet(f"{{folder}}/{name}")'
        elif self.source == "csv":
            yield f'{made}.to_csv(f"{{folder}}/{name}.csv", index=False)'
            yield f'{name} = pd.read_csv(f"{{folder}}/{name}.csv")'

    def _index(self) -> str:
        if not self.index:
            return ""
        first = self.index[0]
        if first.dtype == "range":
            start, step = map(int, first.values)
            return f"pd.RangeIndex({start}, {start + step * self.rows}, {step}, name={first.name})"
        if first.dtype == "dates":
            start, freq = first.values
            return f"pd.date_range({start}, periods={self.rows}, freq={freq}, name={first.name})"
        if len(self.index) == 1:
            return f"pd.Index({first.array()}, name={first.name})"
        arrays = ", ".join(column.array() for column in self.index)
        return f"pd.MultiIndex.from_arrays([{arrays}], names=[{', '.join(column.name for column in self.index)}])"

    def without_rows(self, start: int, stop: int) -> Table:
        """The table without the rows from ``start`` to ``stop``."""

        def cut(column: Column) -> Column:
            if column.dtype in ("range", "dates"):
                return column
            return replace(column, values=column.values[:start] + column.values[stop:])

        return replace(
            self,
            columns=tuple(map(cut, self.columns)),
            index=tuple(map(cut, self.index)),
            rows=self.rows - (min(stop, self.rows) - start),
        )


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a program.

    Parameters
    ----------
    code
        The text: a statement, or several lines.
    operation
        The name of the operation that generated it.
    target
        The variable that it binds; empty if it binds none.
    uses
        The variables that it reads.
    """

    code: str
    operation: str
    target: str = ""
    uses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """Tables and steps.

    Parameters
    ----------
    tables, steps
        The tables, which are created first, and the steps.
    evaluation_order
        The order in which variables are evaluated at the end: starting with the ``last`` one or with the ``first`` one.
    label
        The seed that generates the program.
    """

    tables: tuple[Table, ...]
    steps: tuple[Step, ...]
    evaluation_order: str = "last"
    label: str = field(default="", compare=False)

    @classmethod
    def of(cls, text: str) -> Program:
        """Parse a program from its statements."""
        steps = []
        for node in ast.parse(text).body:
            code = ast.get_source_segment(text, node) or ""
            name = node.targets[0].id if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) else ""
            steps.append(Step(code, code.partition("(")[0], name))
        return cls((), tuple(steps))

    def statements(self) -> list[tuple[str, Step | None]]:
        """All statements, each with its step; None for the statements of tables."""
        found: list[tuple[str, Step | None]] = [(text, None) for table in self.tables for text in table.statements()]
        return [*found, *((step.code, step) for step in self.steps)]

    def variables(self) -> list[str]:
        """The bound names, in order, without repetitions."""
        names = [table.name for table in self.tables]
        names += [step.target for step in self.steps if step.target]
        return list(dict.fromkeys(names))

    def text(self, setup: str = "", last: str = "") -> str:
        """The program as Python text that runs on its own."""
        lines = [PRELUDE + "import craton, craton.pandas as pd  # or: import pandas as pd"]
        if setup:
            lines.append(setup)
        if any(table.source != "memory" for table in self.tables) or any("folder" in s.code for s in self.steps):
            lines.append("folder = tempfile.mkdtemp()")
        lines += [code for code, _ in self.statements()]
        shown = last or (self.steps[-1].target if self.steps and self.steps[-1].target else "")
        if shown:
            lines.append(f"print({shown})")
        return "\n".join(lines)


@functools.lru_cache(4096)
def compiled(code: str) -> CodeType:
    """The code object of a statement."""
    return compile(code, "<program>", "exec")
