"""``persist`` and ``unpersist``: what a lazy object reads is computed now, and kept in the store."""

from __future__ import annotations

from typing import Any

from craton.engine.evaluations import keep_used
from craton.engine.results import results
from craton.engine.run import execute
from craton.pandas.core.axes import current_view
from craton.pandas.core.view import View
from craton.plan import build
from craton.plan.expr import roots
from craton.plan.operators import Operator, schema


class Persisting:
    """The methods of DataFrame and Series. pandas has none of these names."""

    def persist(self: Any) -> Any:
        """Compute what this object reads and keep it in the store, until it is unpersisted.

        Everything that is derived from the object, before or after, starts from there. Pages that nobody looks at are
        written to disk when memory is needed. What is in memory already stays as it is.

        Returns
        -------
        DataFrame or Series
            The object itself.

        What the store has no room for, beside what is pinned, stays in this process's memory.

        Examples
        --------
        >>> import craton.pandas as pd
        >>> df = pd.DataFrame({"a": [1, 2]}).persist()
        >>> int(df["a"].sum())
        3
        """
        held = current_view(self.__dict__)
        if held is not None:
            base, names = _read(held)
            kept = results.persisted(base)  # by another object that reads other columns
            names += [name for name in schema(base) if name in kept and name not in names]
            keep_used([base], [held])
            (frame,) = execute(
                [build.project(base, tuple((name, base.column(name)) for name in names))], remember=False
            )
            results.persist(base, frame)
            self.unpersist()  # what it read when it was persisted before
            self.__dict__["_persisted"] = base
        return self

    def unpersist(self: Any) -> Any:
        """Keep no longer what :meth:`persist` kept; it is computed again where it is needed.

        What another object has persisted too is kept for that one.

        Returns
        -------
        DataFrame or Series
            The object itself.
        """
        base = self.__dict__.pop("_persisted", None)
        if base is not None:
            results.unpersist(base)
        return self


def _read(view: View) -> tuple[Operator, list[str]]:
    """The plan below a view, and the columns that the view reads of it."""
    wanted: set[str] = set().union(*(roots(value.expr) for value in (*view.values, *view.index.values)))
    names = [name for name in schema(view.base) if name in wanted]
    return view.base, names or list(schema(view.base))[:1]
