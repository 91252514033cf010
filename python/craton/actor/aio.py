"""Files that are read and written without blocking the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

__all__ = ["AioFileObject"]

_AT_ONCE = frozenset({"closed", "encoding", "fileno", "mode", "name", "readable"})


class AioFileObject:
    """An open file whose methods are awaited; they run in a thread, one after another.

    Parameters
    ----------
    file : file object
        Binary or text. ``fileno()``, ``readable()`` and attributes such as ``mode`` are as ever.
    """

    def __init__(self, file: Any) -> None:
        self._file = file._file if isinstance(file, AioFileObject) else file
        self._turn = asyncio.Lock()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._file, name)
        if name in _AT_ONCE or not callable(found):
            return found

        async def method(*args: Any, **kwargs: Any) -> Any:
            return await self._do(found, *args, **kwargs)

        return method

    async def _do(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        async with self._turn:
            return await asyncio.to_thread(function, *args, **kwargs)

    def __aiter__(self) -> AioFileObject:
        return self

    async def __anext__(self) -> Any:
        line = await self._do(self._file.readline)
        if not line:
            raise StopAsyncIteration
        return line

    async def __aenter__(self) -> AioFileObject:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._do(self._file.close)
