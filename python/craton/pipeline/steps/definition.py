"""``@craton.step`` and ``@craton.expect``: what a pipeline has to know of a function beside its code.

The decorators return the function itself, so it stays callable, picklable and testable as any other. What they were given is kept in a
table beside it.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, Literal, TypeVar, overload

from craton.config import parse_bytes
from craton.pipeline.steps.forms import FORMS
from craton.pipeline.steps.inputs import Input, as_input
from craton.pipeline.tasks import Form, Limits, Setting
from craton.records import dataclass

__all__ = ["ExpectOptions", "StepOptions", "expect", "options_of", "step"]

F = TypeVar("F", bound=Callable[..., Any])

#: What happens if a check fails: the steps that read the tables do not run, or there is a warning.
Action = Literal["stop", "warn"]


@dataclass(frozen=True, slots=True)
class StepOptions:
    """What :func:`step` was given.

    Parameters
    ----------
    name
        The step's name; None for that of the function.
    inputs
        For parameters of the function: which table, and which part of it.
    takes
        The form of tables whose parameter has no annotation; None for the form that they have.
    outputs
        Names of the tables if the function returns several in a dict.
    schema
        Names and types of the columns of the table; None if nothing is promised.
    limits, setting
        What its process may use, and where it runs.
    retries
        How often it runs again after it failed.
    cache
        Whether an earlier result is used if code, parameters and inputs are the same; None for the default.
    map_over
        The parameter whose table is divided into partitions; the function is called for each of them.
    partitions
        How it is divided: into so many ranges of rows, or by the values of columns; None for the partitions that it has.
    priority
        Steps that are ready start in the order of descending priorities.
    persist
        The name of the set in the store that gets the table; None for none.
    to_parquet
        The file that the table is written to; None for none.
    source
        Whether the function takes no table, since it reads its own from elsewhere.
    """

    name: str | None = None
    inputs: Mapping[str, Input] = {}
    takes: Form | None = None
    outputs: tuple[str, ...] = ()
    schema: tuple[tuple[str, str], ...] | None = None
    limits: Limits = Limits()
    setting: Setting = Setting()
    retries: int = 0
    cache: bool | None = None
    map_over: str | None = None
    partitions: int | tuple[str, ...] | None = None
    priority: int = 0
    persist: str | None = None
    to_parquet: str | None = None
    source: bool = False


@dataclass(frozen=True, slots=True)
class ExpectOptions:
    """What :func:`expect` was given: as in :class:`StepOptions`, and what happens if the check fails."""

    action: Action = "stop"
    name: str | None = None
    inputs: Mapping[str, Input] = {}
    takes: Form | None = None
    limits: Limits = Limits()
    setting: Setting = Setting()


#: What the decorators were given, by function.
_options: weakref.WeakKeyDictionary[Callable[..., Any], StepOptions | ExpectOptions] = weakref.WeakKeyDictionary()


def options_of(function: Callable[..., Any]) -> StepOptions | ExpectOptions | None:
    """What the decorator of a function was given, also if another decorator is around it; None if it has none."""
    while True:
        found = _options.get(function)
        inner = getattr(function, "__wrapped__", None)
        if found is not None or inner is None:
            return found
        function = inner


@overload
def step(function: F, /) -> F: ...


@overload
def step(
    *,
    name: str | None = None,
    inputs: Mapping[str, Input | str | Sequence[str]] | None = None,
    takes: Form | None = None,
    outputs: Sequence[str] = (),
    schema: Any = None,
    memory: int | str | None = None,
    cpus: int | None = None,
    seconds: float | None = None,
    packages: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    retries: int = 0,
    cache: bool | None = None,
    map_over: str | None = None,
    partitions: int | str | Sequence[str] | None = None,
    priority: int = 0,
    persist: bool | str = False,
    to_parquet: str | None = None,
    source: bool = False,
) -> Callable[[F], F]: ...


def step(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    inputs: Mapping[str, Input | str | Sequence[str]] | None = None,
    takes: Form | None = None,
    outputs: Sequence[str] = (),
    schema: Any = None,
    memory: int | str | None = None,
    cpus: int | None = None,
    seconds: float | None = None,
    packages: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    retries: int = 0,
    cache: bool | None = None,
    map_over: str | None = None,
    partitions: int | str | Sequence[str] | None = None,
    priority: int = 0,
    persist: bool | str = False,
    to_parquet: str | None = None,
    source: bool = False,
) -> Any:
    """Make a function a step of pipelines. It stays an ordinary function.

    Its positional parameters name the steps and sources whose tables it takes; its keyword-only parameters are parameters of the pipeline.
    It returns a table of pyarrow, pandas, Polars or Craton, a NumPy array, a dict of several, or an iterator of Arrow record batches.
    An annotation (``orders: pandas.DataFrame``) says in which form it takes a table.

    Parameters
    ----------
    name : str, optional
        The step's name; by default that of the function.
    inputs : mapping, optional
        For a parameter: the name of the step or source, if it is another than the parameter's; a list of the columns that the function
        needs; or an :class:`~craton.pipeline.Input` that has these and a condition. Sources read nothing else.
    takes : {"arrow", "pandas", "polars", "craton", "numpy"}, optional
        The form of tables whose parameter has no annotation; by default the form that the step or the source made.
    outputs : sequence of str, optional
        The names of the tables, if the function returns a dict of several. Other steps take them by these names.
    schema : mapping or pyarrow.Schema, optional
        The columns and their Arrow types that the function promises, such as ``{"day": "date32", "sales": "double"}``.
    memory : int or str, optional
        Bytes that the function may use besides its inputs, such as ``"2GiB"``.
    cpus : int, optional
        Number of processors that it may use.
    seconds : float, optional
        How long it may run.
    packages : sequence of str, optional
        Requirements of an environment of its own, such as ``["scikit-learn==1.8"]``.
    variables : mapping, optional
        Environment variables.
    retries : int
        How often it runs again after it failed.
    cache : bool, optional
        Whether the table of an earlier run is used if code, parameters and inputs are the same. By default it is, except for sources.
    map_over : str, optional
        A parameter: the function is called for each partition of its table, and the results are joined in the order of the partitions.
    partitions : int, str or sequence of str, optional
        The partitions: so many ranges of rows, or one for each value of the columns. By default the files of a source, and the
        partitions that the step of the table had.
    priority : int
        Steps that are ready start in the order of descending priorities.
    persist : bool or str
        Keep the table as a set in the store, under the step's name or another.
    to_parquet : str, optional
        Write the table to this file.
    source : bool
        Whether the function takes no table, but reads its own from elsewhere.

    Examples
    --------
    >>> import craton
    >>> import pyarrow as pa
    >>> @craton.step(memory="1GiB")
    ... def doubled(numbers: pa.Table, *, factor: int = 2) -> pa.Table:
    ...     return numbers.append_column("more", pa.array([factor * n for n in numbers["n"].to_pylist()]))
    >>> doubled(pa.table({"n": [1, 2]}), factor=10)["more"].to_pylist()
    [10, 20]
    """

    def decorate(made: F) -> F:
        made = _unmarked(made, "step")
        _options[made] = StepOptions(
            name=name,
            inputs=_inputs(inputs),
            takes=_form(takes),
            outputs=tuple(outputs),
            schema=_schema(schema),
            limits=_limits(memory, cpus, seconds),
            setting=Setting(_names("packages", packages), tuple(sorted((variables or {}).items()))),
            retries=_count("retries", retries, least=0),
            cache=cache,
            map_over=map_over,
            partitions=_partitions(partitions, map_over),
            priority=priority,
            persist=(name or made.__name__) if persist is True else persist or None,
            to_parquet=to_parquet,
            source=source,
        )
        return made

    return decorate if function is None else decorate(function)


@overload
def expect(function: F, /) -> F: ...


@overload
def expect(
    *,
    action: Action = "stop",
    name: str | None = None,
    inputs: Mapping[str, Input | str | Sequence[str]] | None = None,
    takes: Form | None = None,
    memory: int | str | None = None,
    cpus: int | None = None,
    seconds: float | None = None,
) -> Callable[[F], F]: ...


def expect(
    function: Any = None,
    /,
    *,
    action: Action = "stop",
    name: str | None = None,
    inputs: Mapping[str, Input | str | Sequence[str]] | None = None,
    takes: Form | None = None,
    memory: int | str | None = None,
    cpus: int | None = None,
    seconds: float | None = None,
) -> Any:
    """Make a function a check on the tables of a pipeline, which its positional parameters name.

    The check fails if the function returns False or a text that says what is wrong, or if an `assert` in it does not hold. It passes if
    it returns True or nothing.

    Parameters
    ----------
    action : {"stop", "warn"}
        What happens if the check fails: the steps that take the tables do not run and the run fails, or there is a warning.
    name, inputs, takes, memory, cpus, seconds
        As in :func:`step`.

    Examples
    --------
    >>> import craton
    >>> import pyarrow as pa
    >>> @craton.expect(action="warn")
    ... def has_rows(numbers: pa.Table) -> bool:
    ...     return numbers.num_rows > 0
    >>> has_rows(pa.table({"n": []}))
    False
    """
    if action not in ("stop", "warn"):
        raise ValueError(f"action is 'stop' or 'warn', not {action!r}")

    def decorate(made: F) -> F:
        made = _unmarked(made, "expect")
        limits = _limits(memory, cpus, seconds)
        _options[made] = ExpectOptions(action, name, _inputs(inputs), _form(takes), limits)
        return made

    return decorate if function is None else decorate(function)


# ---- what the decorators were given, checked ----


def _unmarked(given: Any, decorator: str) -> Any:
    """The function; a copy if it is a step or a check already, so that one function can be several steps.

    Raises
    ------
    TypeError
        If it is no function that a step can call.
    """
    _require_function(given, decorator)
    if given not in _options or not isinstance(given, FunctionType):
        return given
    copy = FunctionType(given.__code__, given.__globals__, given.__name__, given.__defaults__, given.__closure__)
    copy.__kwdefaults__ = given.__kwdefaults__
    functools.update_wrapper(copy, given)
    del copy.__wrapped__  # type: ignore[attr-defined]
    return copy


def _require_function(given: Any, decorator: str) -> None:
    if not isinstance(given, FunctionType) and not hasattr(given, "__wrapped__"):
        raise TypeError(f"@craton.{decorator} decorates a function, not {type(given).__name__} {given!r}")
    if inspect.iscoroutinefunction(given) or inspect.isasyncgenfunction(given):
        raise TypeError(f"@craton.{decorator} decorates an ordinary function; {given.__qualname__} is async")


def _inputs(given: Mapping[str, Input | str | Sequence[str]] | None) -> dict[str, Input]:
    return {parameter: as_input(parameter, one) for parameter, one in (given or {}).items()}


def _form(given: Any) -> Form | None:
    if given is not None and given not in FORMS:
        raise ValueError(f"takes is one of {', '.join(FORMS)}, not {given!r}")
    return given  # type: ignore[no-any-return]


def _schema(given: Any) -> tuple[tuple[str, str], ...] | None:
    """The names and the types, as Arrow writes them."""
    if given is None:
        return None
    import pyarrow as pa

    schema = given if isinstance(given, pa.Schema) else pa.schema(dict(given))
    return tuple((field.name, str(field.type)) for field in schema)


def _limits(memory: int | str | None, cpus: int | None, seconds: float | None) -> Limits:
    if isinstance(memory, str):
        memory = parse_bytes(memory)
    if memory is not None:
        memory = _count("memory", memory, least=1)
    if cpus is not None:
        cpus = _count("cpus", cpus, least=1)
    if seconds is not None and not seconds > 0:
        raise ValueError(f"seconds is greater than 0, not {seconds!r}")
    return Limits(memory, cpus, seconds)


def _count(option: str, given: Any, least: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        raise ValueError(f"{option} is a whole number of at least {least}, not {given!r}")
    return given


def _names(option: str, given: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str) or not all(isinstance(one, str) for one in given):
        raise TypeError(f"{option} is a list of texts, not {given!r}")
    return tuple(given)


def _partitions(given: int | str | Sequence[str] | None, map_over: str | None) -> int | tuple[str, ...] | None:
    if given is None:
        return None
    if map_over is None:
        raise ValueError("partitions= says how the table of map_over= is divided; give map_over=, too")
    if isinstance(given, int):
        return _count("partitions", given, least=1)
    return (given,) if isinstance(given, str) else _names("partitions", given)
