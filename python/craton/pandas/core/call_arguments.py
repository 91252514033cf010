"""The arguments of a call by name, from the signature of pandas' method."""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import Any

from craton.errors import Unsupported
from craton.refusals import Refusal


@lru_cache(maxsize=256)
def signature_of(base: type, name: str) -> inspect.Signature:
    """The signature of a pandas method."""
    return inspect.signature(getattr(base, name))


def bound_arguments(base: type, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call of a method by name, without the object. Further arguments are under ``args`` and ``kwargs``.

    Parameters
    ----------
    base, name
        The pandas class and the name of its method.
    args, kwargs
        The arguments, without the object.

    Raises
    ------
    Unsupported
        If the arguments do not fit the signature; pandas then raises the error.
    """
    try:
        bound = signature_of(base, name).bind(None, *args, **kwargs)
    except TypeError as error:
        raise Unsupported(Refusal.ERROR_OF_PANDAS, error) from error
    return dict(list(bound.arguments.items())[1:])
