"""``craton.explain(obj)``: the plan of a lazy object at each stage of planning."""

from __future__ import annotations

from typing import Any

from craton.engine.analysis import PlanRun, analyze
from craton.engine.choice import expected_engine
from craton.engine.result_cache import results
from craton.lower import lower
from craton.lower.tiled.report import expected, measured, summary, table
from craton.pandas.core.execute import planned
from craton.pandas.core.lazy import identities, view
from craton.pandas.core.routing import is_lazy
from craton.plan.explain import Notes, explain_svg, explain_text, no_notes
from craton.plan.operators import Operator, schema
from craton.plan.stages import STAGES, optimize


class Description(str):
    """A text of several lines, which Python's prompt and notebooks show as lines, without quotes."""

    def __repr__(self) -> str:
        return str(self)


class Drawing(str):
    """The text of an SVG drawing, which a notebook shows as a picture."""

    def _repr_svg_(self) -> str:
        return str(self)


def explain(obj: Any, stage: str = "optimized", format: str = "text") -> str:
    """Describe the plan of a lazy DataFrame or Series.

    Parameters
    ----------
    obj : DataFrame or Series
        The object. Nothing runs unless ``stage`` is ``analyzed``.
    stage : str
        A planning stage: ``logical`` (the plan as the program built it), ``unnested``, ``pruned``, ``pushed``, ``joined`` or
        ``optimized`` (the plan that runs); or ``lowered`` (the kernel's own plan, text only) or ``analyzed`` (measurements of a
        run). In a session with workers, ``optimized`` also shows which engine runs the plan and which operators run on one
        worker. ``analyzed`` runs the plan, unless it is the plan that ran last in the session. It shows the tiles, rows, bytes
        and seconds of each stage, and beside each operator the decisions that were based on them.
    format : {"text", "svg"}
        Indented text, or an SVG drawing, which a notebook shows as a picture.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If the stage or the format is unknown.
    TypeError
        If ``obj`` is neither a DataFrame nor a Series of Craton.

    Examples
    --------
    >>> import craton, craton.pandas as pd
    >>> with craton.option_context(small_rows=0):
    ...     df = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    ...     print(craton.explain(df[df.a > 1].b, stage="logical").splitlines()[0])
    Project index0 = cast(#row), b  (~0 rows)
    """
    import pandas

    if not isinstance(obj, (pandas.DataFrame, pandas.Series)):
        raise TypeError(f"explain needs a DataFrame or Series of Craton, not {type(obj).__name__}")
    names = [name for name, _ in STAGES]
    if stage not in (*names, "lowered", "analyzed"):
        raise ValueError(f"unknown stage {stage!r}; it must be one of {[*names, 'lowered', 'analyzed']}")
    if format not in ("text", "svg"):
        raise ValueError(f"unknown format {format!r}; it must be 'text' or 'svg'")
    plan = planned(view(obj))
    if stage == "lowered":
        return Description(lower(optimize(results.substitute(plan))).explain(engine="streaming"))
    if stage == "analyzed":
        made_of = () if is_lazy(obj) else {one.base for one in identities(obj)}
        return _analyzed(analyze(plan, made_of), format)
    head, notes = _engine(plan) if stage == "optimized" else ("", no_notes)
    plan = optimize(plan, stage)
    if format == "svg":
        return Drawing(explain_svg(plan, notes=notes))
    return Description(head + explain_text(plan, notes=notes))


def _engine(plan: Operator) -> tuple[str, Notes]:
    """A line about the engine that will run a plan, and notes for its operators; both empty without workers."""
    engine, refusal = expected_engine([results.substitute(plan)])
    if engine is None:
        return "", no_notes
    if results.covers(plan, set(schema(plan)), ordered=True):
        return "result cache: it has the result of this plan, so nothing has to run\n", no_notes
    if refusal is not None:
        return f"single node, in this process: {refusal}\n", no_notes
    return f"tiled {engine.where}\n", expected


def _analyzed(ran: PlanRun, format: str) -> str:
    """The measurements of a run, as text or SVG."""
    notes = no_notes if ran.tiling is None else measured(ran.tiling)
    if format == "svg":
        return Drawing(explain_svg(ran.plan, notes=notes))
    text = explain_text(ran.plan, notes=notes)
    if ran.tiling is None:
        return Description(f"single node, {ran.where}; {ran.seconds:.3f} s, {ran.rows:,} rows\n{text}")
    return Description(f"{summary(ran.tiling, ran.where)}\n{text}\n\n{table(ran.tiling.stages)}")
