"""``persist`` and ``unpersist``: compute the rows that a lazy object reads, and keep them in the store."""

from __future__ import annotations

from typing import Any

from craton.pandas.core.axes import current_view
from craton.pandas.core.view import View
from craton.plan import build
from craton.plan.expr import roots
from craton.plan.operators import Operator, schema


class Persisting:
    """Methods of DataFrame and Series that pandas does not have."""

    def persist(self: Any) -> Any:
        """Compute the rows that this object reads, and keep them in the store until it is unpersisted.

        All objects that are derived from this one, before or after the call, then start from these rows. If memory is
        needed, pages that are not in use are written to disk. An object that is already in memory is left as it is.

        If the store has no room for the rows beside pinned pages, they are kept in this process's memory.

        Returns
        -------
        DataFrame or Series
            The object itself.

        Examples
        --------
        >>> import craton.pandas as pd
        >>> df = pd.DataFrame({"a": [1, 2]}).persist()
        >>> int(df["a"].sum())
        3
        """
        from craton.engine.evaluations import keep_used
        from craton.engine.result_cache import results
        from craton.engine.run import execute

        held = current_view(self.__dict__)
        if held is not None:
            base, names = _read(held)
            kept = results.persisted(base)  # the columns that other objects have persisted
            names += [name for name in schema(base) if name in kept and name not in names]
            keep_used([base], [held])
            (frame,) = execute(
                [build.project(base, tuple((name, base.column(name)) for name in names))], remember=False
            )
            results.persist(base, frame)
            self.unpersist()  # releases the rows of an earlier persist
            self.__dict__["_persisted"] = base
        return self

    def unpersist(self: Any) -> Any:
        """Release the rows that :meth:`persist` kept; they are computed again when they are needed.

        Rows that another object has persisted, too, are kept for that object.

        Returns
        -------
        DataFrame or Series
            The object itself.
        """
        base = self.__dict__.pop("_persisted", None)
        if base is not None:
            from craton.engine.result_cache import results

            results.unpersist(base)
        return self


def _read(view: View) -> tuple[Operator, list[str]]:
    """The plan below a view, and the columns of it that the view reads."""
    wanted: set[str] = set().union(*map(roots, view.exprs))
    names = [name for name in schema(view.base) if name in wanted]
    return view.base, names or list(schema(view.base))[:1]
