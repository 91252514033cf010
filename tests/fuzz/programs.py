"""Programs as data: tables, then steps; rendered as plain Python that runs by itself.

A step is one statement. It is executed with ``pd`` bound to pandas or to ``craton.pandas``, so that both run the same text.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from types import CodeType

#: What every program starts with; ``pd`` is bound beside it.
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
        Its label, as Python text.
    dtype
        A dtype as text, ``object``, or the arguments of ``pd.Categorical`` if it starts with ``categories=``.
    values
        One text a row.
    """

    name: str
    dtype: str
    values: tuple[str, ...]

    def array(self) -> str:
        """The text of an array with the values."""
        values = f"[{', '.join(self.values)}]"
        if self.dtype.startswith("categories="):
            return f"pd.Categorical({values}, {self.dtype})"
        if self.dtype == "object":
            return f"np.array({values}, dtype=object)"
        if self.dtype == "double[pyarrow]" and "np.nan" in self.values:  # a number, beside missing values
            return f"pd.array(pa.array({values}, pa.float64(), from_pandas=False), dtype='double[pyarrow]')"
        return f'pd.array({values}, dtype="{self.dtype}")'


@dataclass(frozen=True, slots=True)
class Table:
    """A frame that a program starts from.

    Parameters
    ----------
    name
        The variable.
    columns
        Its columns, equally long.
    index
        Columns that are its row labels: none for a default index, several for a MultiIndex. A column whose dtype is
        ``range`` has the start and step of a RangeIndex as its values, one of dtype ``dates`` the start and frequency.
    grow
        Seed and number of rows to sample from it for a larger table, which has a column of different numbers more.
    source
        ``memory``, ``parquet`` or ``csv``: written by pandas, and read by ``pd``. ``parts`` is a folder of Parquet files.
    rows
        How many rows it has before it grows.
    """

    name: str
    columns: tuple[Column, ...]
    index: tuple[Column, ...] = ()
    grow: tuple[int, int] | None = None
    source: str = "memory"
    rows: int = 0

    def statements(self) -> Iterator[str]:
        """The statements that make it."""
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
        """The same table without some rows."""

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
    """A statement.

    Parameters
    ----------
    code
        Its text.
    operation
        The name of the operation that made it.
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
        What it is made of.
    evaluation_order
        In which order the variables are looked at in the end: ``last`` made first, or ``first``.
    options
        What the steps were made from: calls and their parameters, for the report of what was reached.
    """

    tables: tuple[Table, ...]
    steps: tuple[Step, ...]
    evaluation_order: str = "last"
    label: str = field(default="", compare=False)

    @classmethod
    def of(cls, text: str) -> Program:
        """A program of plain statements."""
        steps = []
        for node in ast.parse(text).body:
            code = ast.get_source_segment(text, node) or ""
            name = node.targets[0].id if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) else ""
            steps.append(Step(code, code.partition("(")[0], name))
        return cls((), tuple(steps))

    def statements(self) -> list[tuple[str, Step | None]]:
        """Each statement, with its step if it is none of a table's."""
        found: list[tuple[str, Step | None]] = [(text, None) for table in self.tables for text in table.statements()]
        return [*found, *((step.code, step) for step in self.steps)]

    def variables(self) -> list[str]:
        """The names that are bound, in order, each once."""
        names = [table.name for table in self.tables]
        names += [step.target for step in self.steps if step.target]
        return list(dict.fromkeys(names))

    def text(self, setup: str = "", last: str = "") -> str:
        """The program as Python that can be run by itself."""
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
    """A statement, ready to run."""
    return compile(code, "<program>", "exec")
