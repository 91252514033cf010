"""Detects functions with state, whose calls must be made in this process and in order.

A function that only reads its argument may be called in any process. One that keeps state between its calls may not: a counter,
a list of earlier arguments, a random generator. Two checks detect that:

- *its code*: it assigns a global or enclosing variable, stores into a captured object, calls a method of one that is known to
  mutate its object, or reads from the keyboard;
- *its state*: a digest of the pickled captured objects differs after some calls. It is compared in this process after the first
  calls, and in workers after each piece, so that a function whose hundredth call is the first to change something is found as
  well; the calls of that piece are then made in this process, in order.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import io
import random
import sys
import types
import zlib
from collections.abc import Iterator
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd

from craton.callers import is_user
from craton.refusals import Reason, Refusal
from craton.remote.functions import UserFunction
from craton.remote.modules import HeldAttribute, class_attributes, importable, module_attributes

__all__ = ["State", "attributes_read", "refusal"]

_MUTATING_METHODS = frozenset(
    [
        *(
            "add",
            "append",
            "appendleft",
            "clear",
            "difference_update",
            "discard",
            "extend",
            "extendleft",
            "fill",
            "insert",
        ),
        *(
            "intersection_update",
            "itemset",
            "move_to_end",
            "partition",
            "pop",
            "popitem",
            "popleft",
            "put",
            "put_nowait",
        ),
        *(
            "remove",
            "resize",
            "reverse",
            "rotate",
            "send",
            "setdefault",
            "shuffle",
            "sort",
            "subtract",
            "update",
            "write",
        ),
        *("symmetric_difference_update", "writelines", "__setitem__", "__delitem__", "__setattr__", "__next__"),
    ]
)
_MUTATING_FRAME_METHODS = frozenset(["insert", "pop", "update", "__setitem__", "__delitem__"])
_READING_INPUT = {"input", "breakpoint"}
#: Builtins and attributes by which code reads variables that it does not name.
_READING_VARIABLES = {
    "globals",
    "vars",
    "eval",
    "exec",
    "f_globals",
    "f_locals",
    "_getframe",
    "currentframe",
    "__globals__",
}
_STORES = {"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_ATTR", "DELETE_ATTR", "STORE_SLICE"}
_GLOBAL_STORES = {"STORE_GLOBAL", "DELETE_GLOBAL"}
_METHODS = {"LOAD_METHOD", "LOAD_ATTR"}
_PLAIN = (str, bytes, int, float, complex, bool, type(None), type(...), range, np.generic, np.dtype, types.ModuleType)
#: The most bytes of large buffers whose content is hashed; of further buffers only the size is.
_HASHED_BYTES = 64 << 20


def refusal(function: UserFunction) -> Reason | None:
    """Return the reason why a function's code requires calls in this process, in order; None if there is none."""
    for found in _functions(function):
        reason = _code_refusal(found.__code__, found)
        if reason is not None:
            return reason
    return None


# -- code -------------------------------------------------------------------------------------------------------------


def _functions(function: UserFunction) -> Iterator[types.FunctionType]:
    """Yield the user's functions that a function reaches by name, starting with the function itself."""
    waiting: list[Any] = [function.call, *function.args, *function.kwargs.values()]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, functools.partial):
            waiting += [one.func, *one.args, *one.keywords.values()]
        elif isinstance(one, types.MethodType):
            waiting.append(one.__func__)
        elif isinstance(one, functools._lru_cache_wrapper):
            waiting.append(one.__wrapped__)
        elif isinstance(one, types.FunctionType):
            if not is_user(one.__globals__):
                continue
            yield one
            waiting += [value for _, value in _captured_names(one)]
            waiting += [value for _, _, value in _module_values(one)]
        elif isinstance(one, type):
            if _is_user_class(one):
                waiting += [value for value in vars(one).values() if isinstance(value, types.FunctionType)]
        elif not isinstance(one, _PLAIN) and _is_user_class(type(one)):
            waiting.append(type(one))


def _is_user_class(kind: type) -> bool:
    module = sys.modules.get(kind.__module__)
    return is_user(vars(module)) if module is not None else True


def _captured_names(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the names and values that a function captures: closure cells, and globals that its code names."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # the cell is empty
            continue
    for name in _names(function.__code__):
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _module_values(function: types.FunctionType) -> list[tuple[types.ModuleType, str, Any]]:
    """Return the attributes of the user's modules that a function's code names."""
    return list(module_attributes(_names(function.__code__), dict(_captured_names(function))))


def attributes_read(function: UserFunction) -> list[HeldAttribute]:
    """Return the attributes that a function reads from modules and classes that are pickled by name."""
    found: dict[tuple[str, str, str], Any] = {}
    for one in _functions(function):
        values = [(module.__name__, name, value) for module, name, value in _module_values(one)]
        named = dict(_captured_names(one))
        if importable(one):
            values += [(one.__module__, name, named[name]) for name in _names(one.__code__) if name in named]
        for module, name, value in values:
            if not isinstance(value, types.ModuleType):
                found[module, "", name] = value
        for kind in {
            value for value in [*named.values(), *(value for _, _, value in values)] if isinstance(value, type)
        }:
            if _is_user_class(kind) and importable(kind):
                found |= {(kind.__module__, kind.__qualname__, name): value for name, value in class_attributes(kind)}
    return [(*key, value) for key, value in found.items()]


def _names(code: types.CodeType) -> list[str]:
    found = dict.fromkeys(code.co_names)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            found.update(dict.fromkeys(_names(inner)))
    return list(found)


def _code_refusal(code: types.CodeType, function: types.FunctionType) -> Reason | None:
    captured = dict(_captured_names(function))
    name = function.__qualname__
    instructions = [one for one in dis.get_instructions(code) if one.opname not in ("CACHE", "EXTENDED_ARG")]
    aliases: dict[str, str] = {}
    for at, one in enumerate(instructions):
        if one.opname in _GLOBAL_STORES:
            return Reason(Refusal.FUNCTION_ASSIGNS_GLOBAL, f"{one.argval} in {name}")
        if one.opname in ("STORE_DEREF", "DELETE_DEREF") and one.argval in function.__code__.co_freevars:
            return Reason(Refusal.FUNCTION_ASSIGNS_OUTER, f"{one.argval} in {name}")
        asks = one.opname in ("LOAD_GLOBAL", "LOAD_NAME") and one.argval in _READING_INPUT
        if asks and one.argval not in captured:
            return Reason(Refusal.FUNCTION_ASKS, name)
        named = one.opname in ("LOAD_GLOBAL", "LOAD_NAME") and one.argval not in captured
        if (named or one.opname in _METHODS) and one.argval in _READING_VARIABLES:
            return Reason(Refusal.FUNCTION_READS_VARIABLES, f"{one.argval} in {name}")
        if one.opname == "STORE_FAST" and at and (source := _source(instructions[at - 1], captured)) is not None:
            aliases[one.argval] = source
        if one.opname in _METHODS and at and one.argval in _MUTATING_METHODS:
            owner = _owner(instructions, at, captured, aliases)
            if owner is not None:
                return Reason(Refusal.FUNCTION_CHANGES, f"{owner}.{one.argval} in {name}")
        if one.opname in _STORES and (owner := _store_target(instructions, at, captured, aliases)) is not None:
            return Reason(Refusal.FUNCTION_CHANGES, f"{owner} in {name}")
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType) and (reason := _code_refusal(inner, function)) is not None:
            return reason
    return None


def _source(one: dis.Instruction, captured: dict[str, Any]) -> str | None:
    """Return the captured variable that an instruction loads, if its value is mutable; else None."""
    if one.opname in ("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_NAME") and one.argval in captured:
        value = captured[one.argval]
        if not isinstance(value, (*_PLAIN, tuple, frozenset, types.BuiltinFunctionType)):
            return str(one.argval)
    return None


def _owner(
    instructions: list[dis.Instruction], at: int, captured: dict[str, Any], aliases: dict[str, str]
) -> str | None:
    """Return the captured variable whose object, or an attribute or item of it, is on top of the stack before an instruction."""
    first = _expression_start(instructions, at)
    if first is None:
        return None
    one = instructions[first]
    if one.opname.startswith("LOAD_FAST"):
        return aliases.get(one.argval) if isinstance(one.argval, str) else None
    source = _source(one, captured)
    # The result of a call is a new object; an attribute or item is part of the captured one.
    if source is None or any(other.opname.startswith("CALL") for other in instructions[first:at]):
        return None
    value = captured[source]
    if at == first + 1 and isinstance(value, (types.FunctionType, type)):
        return None
    if (
        isinstance(value, (pd.DataFrame, pd.Series, pd.Index))
        and instructions[at].argval not in _MUTATING_FRAME_METHODS
    ):
        return None
    return source


def _store_target(
    instructions: list[dis.Instruction], at: int, captured: dict[str, Any], aliases: dict[str, str]
) -> str | None:
    """Return the captured variable whose object an instruction stores into; None if it is not captured or not known."""
    end: int | None = at
    subscript = instructions[at].opname.endswith("SUBSCR")
    if (
        at and instructions[at - 1].opname == "SWAP"
    ):  # an augmented assignment: the container was copied on the stack before
        copies = [number for number in range(at) if instructions[number].opname == "COPY"]
        end = copies[-2 if subscript else -1] if len(copies) > subscript else None
    if subscript and end is not None:
        end = _expression_start(instructions, end)  # the key is above the container on the stack
    elif instructions[at].opname == "STORE_SLICE":
        end = _expression_start(instructions, at)
        end = None if end is None else _expression_start(instructions, end)
    if end is None:
        return None
    first = _expression_start(instructions, end)
    if first is None:
        return None
    if any(one.opname.startswith("CALL") for one in instructions[first:end]):
        return None
    one = instructions[first]
    if one.opname.startswith("LOAD_FAST"):
        return aliases.get(one.argval) if isinstance(one.argval, str) else None
    if one.opname in ("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME") and one.argval in captured:
        return str(one.argval)
    return None


def _expression_start(instructions: list[dis.Instruction], end: int) -> int | None:
    """Return where the expression begins whose value is on top of the stack before an instruction; None if it branches."""
    wanted, at = 1, end
    while at > 0:
        at -= 1
        one = instructions[at]
        if one.opcode in dis.hasjrel or one.opcode in dis.hasjabs:
            return None
        try:
            effect = dis.stack_effect(one.opcode, one.arg if one.opcode >= dis.HAVE_ARGUMENT else None, jump=False)
        except ValueError:
            return None
        if one.opname in ("SWAP", "COPY", "ROT_TWO", "ROT_THREE", "DUP_TOP", "DUP_TOP_TWO"):
            return None
        wanted -= effect
        if wanted <= 0:
            return at
    return None


# -- state ------------------------------------------------------------------------------------------------------------


class State:
    """The state of a function: everything that it captures, and the global random generators.

    Parameters
    ----------
    function
        The function.
    """

    def __init__(self, function: UserFunction) -> None:
        self._function = function

    def digest(self) -> bytes:
        """Return a hash of the state, to compare with an earlier one.

        Raises
        ------
        Exception
            Any exception of pickling.
        """
        mark = hashlib.blake2b(digest_size=16)
        left = _HASHED_BYTES

        def out_of_band(buffer: Any) -> bool:
            nonlocal left
            memory = buffer.raw()
            mark.update(len(memory).to_bytes(8, "little"))
            if len(memory) <= left:
                left -= len(memory)
                mark.update(zlib.crc32(memory).to_bytes(4, "little"))
            return False

        stream = io.BytesIO()
        pickler = cloudpickle.Pickler(stream, protocol=5, buffer_callback=out_of_band)
        pickler.dump((self._function.call, self._function.args, self._function.kwargs, self._values_by_name()))
        mark.update(stream.getbuffer())
        mark.update(repr(hash(random.getstate())).encode())
        name, keys, *rest = np.random.get_state(legacy=True)
        mark.update(np.asarray(keys).tobytes())
        mark.update(repr((name, rest)).encode())
        return mark.digest()

    def _values_by_name(self) -> list[Any]:
        """Return captured values that pickling the function leaves out: globals of modules pickled by name, and class attributes."""
        found: list[Any] = []
        for function in _functions(self._function):
            values = [
                *(value for _, value in _captured_names(function)),
                *(value for _, _, value in _module_values(function)),
            ]
            for value in values:
                if isinstance(value, (*_PLAIN, types.FunctionType, types.BuiltinFunctionType)):
                    continue
                if not isinstance(value, type):
                    found.append(value)
                elif _is_user_class(value):
                    found.append([held for _, held in class_attributes(value)])
        return found
