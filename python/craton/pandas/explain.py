"""``craton.explain(obj)``: what a lazy object will do, at each stage of planning."""

from __future__ import annotations

from typing import Any

from craton.lower import lower
from craton.lower.results import results
from craton.pandas.execute import planned
from craton.pandas.lazy import view
from craton.plan.explain import explain_svg, explain_text
from craton.plan.stages import STAGES, optimize


class Drawing(str):
    """An SVG text that a notebook shows as a picture."""

    def _repr_svg_(self) -> str:
        return str(self)


def explain(obj: Any, stage: str = "optimized", format: str = "text") -> str:
    """Describe the plan of a lazy DataFrame or Series.

    Parameters
    ----------
    obj : DataFrame or Series
        The object; nothing is run.
    stage : str
        ``logical`` (as the program built it), ``pruned``, ``pushed``, ``optimized`` (what is run), or ``lowered``
        (the kernel's own plan, text only).
    format : {"text", "svg"}
        Indented text, or a drawing as SVG, which a notebook shows as a picture.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If there is no such stage or format.
    TypeError
        If ``obj`` is neither DataFrame nor Series of Craton.

    Examples
    --------
    >>> import craton, craton.pandas as pd
    >>> with craton.option_context(small_rows=0):
    ...     df = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    ...     print(craton.explain(df[df.a > 1].b, stage="logical").splitlines()[0])
    Project index0 = cast(__row__), b  (~0 rows)
    """
    import pandas

    if not isinstance(obj, (pandas.DataFrame, pandas.Series)):
        raise TypeError(f"explain takes a DataFrame or Series of Craton, not {type(obj).__name__}")
    names = [name for name, _ in STAGES]
    if stage not in (*names, "lowered"):
        raise ValueError(f"unknown stage {stage!r}; stages are {[*names, 'lowered']}")
    if format not in ("text", "svg"):
        raise ValueError(f"format is 'text' or 'svg', not {format!r}")
    plan = planned(view(obj))
    if stage == "lowered":
        return lower(optimize(results.substitute(plan))).explain(engine="streaming")
    plan = optimize(plan, stage)
    return Drawing(explain_svg(plan)) if format == "svg" else explain_text(plan)
