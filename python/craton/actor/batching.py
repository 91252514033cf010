"""Methods that can be called many at a time.

```python
class Store(Actor):
    @extensible
    async def read(self, key): ...

    @read.batch
    async def read(self, args_list, kwargs_list): ...


await ref.read.batch(ref.read.delay("a"), ref.read.delay("b"))
```
"""

from __future__ import annotations

import asyncio
import inspect
from collections import namedtuple
from collections.abc import Callable
from typing import Any

from craton.actor.actors import _NO_LOCK
from craton.actor.refs import Delayed
from craton.serialize.snapshots import taken_from

__all__ = ["Extensible", "extensible"]


class Extensible:
    """A descriptor: a method that may also have an implementation for a batch of calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._batch: Callable[..., Any] | None = None
        self._signature = inspect.signature(function)
        self._is_async = inspect.iscoroutinefunction(function)
        names = list(self._signature.parameters)[1:]
        self._arguments = _named(f"{function.__name__}_arguments", names)

    def batch(self, function: Callable[..., Any]) -> Extensible:
        """Set the batch implementation: a method that takes a list of ``args`` tuples and a list of ``kwargs`` dicts."""
        self._batch = function
        return self

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self._function
        return _Bound(self, instance)


class _Bound:
    """An `Extensible` method bound to an object."""

    def __init__(self, method: Extensible, instance: Any) -> None:
        self._method, self._instance = method, instance
        self._single = method._function.__get__(instance)
        self._many = None if method._batch is None else method._batch.__get__(instance)
        self._is_async = method._is_async
        if getattr(method._function, _NO_LOCK, False) or getattr(method._batch, _NO_LOCK, False):
            setattr(self, _NO_LOCK, True)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._is_async:
            return self._one(args, kwargs)
        try:
            return self._single(*args, **kwargs)
        except NotImplementedError:
            if self._many is None:
                raise
            return _first(self._many([args], [kwargs]))

    async def _one(self, args: Any, kwargs: Any) -> Any:
        try:
            return await self._single(*args, **kwargs)
        except NotImplementedError:
            # Only the batch implementation was written.
            if self._many is None:
                raise
            return _first(await self._many([args], [kwargs]))

    def delay(self, *args: Any, **kwargs: Any) -> Any:
        """Return a delayed call, for `batch`."""
        return Delayed(self._method._function.__name__, args, kwargs)

    def batch(self, *delays: Any) -> Any:
        """Run delayed calls as one batch."""
        return self.call_with_lists([delay.args for delay in delays], [delay.kwargs for delay in delays])

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """Bind arguments to the method's parameters, for use in a batch implementation.

        Returns
        -------
        namedtuple
            A field for each parameter, with defaults filled in.
        """
        bound = self._method._signature.bind(self._instance, *args, **kwargs)
        bound.apply_defaults()
        return self._method._arguments(*list(bound.arguments.values())[1:])

    def call_with_lists(self, args_list: list[Any], kwargs_list: list[Any]) -> Any:
        """Run several calls as one batch, given their arguments."""
        return self._all(args_list, kwargs_list) if self._is_async else self._all_plain(args_list, kwargs_list)

    async def _all(self, args_list: list[Any], kwargs_list: list[Any]) -> Any:
        if len(args_list) == 1:
            return [await self._one(args_list[0], kwargs_list[0])]
        if not args_list:
            return []
        if self._many is not None:
            return await self._many(args_list, kwargs_list)
        pairs = zip(args_list, kwargs_list, strict=True)
        tasks = [asyncio.ensure_future(self._taken(args, kwargs)) for args, kwargs in pairs]
        try:
            return await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise

    def _all_plain(self, args_list: list[Any], kwargs_list: list[Any]) -> Any:
        if not args_list:
            return []
        if self._many is not None:
            return self._many(args_list, kwargs_list)
        pairs = zip(args_list, kwargs_list, strict=True)
        return [taken_from([self._single(*args, **kwargs)]) for args, kwargs in pairs]

    async def _taken(self, args: Any, kwargs: Any) -> Any:
        return taken_from([await self._single(*args, **kwargs)])  # a later call may change it before all are sent


def _named(name: str, fields: list[str]) -> Any:
    return namedtuple(name, fields, rename=True)  # type: ignore[misc]


def _first(results: Any) -> Any:
    return None if results is None else results[0]


def extensible(function: Callable[..., Any]) -> Any:
    """Let a method have a batch implementation; without one, the calls of a batch run one by one."""
    return Extensible(function)
