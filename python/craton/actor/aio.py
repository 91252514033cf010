"""Files that do not block the event loop."""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["AioFileObject"]

_AWAITED = frozenset(
    {
        "close", "flush", "isatty", "read", "read1", "readinto", "readline", "readlines", "seek", "seekable", "tell",
        "truncate", "writable", "write", "writelines",
    }
)  # fmt: skip


class AioFileObject:
    """A file whose blocking methods are awaitable; each call runs in a thread.

    ``closed``, ``fileno``, ``mode``, ``name`` and ``readable`` are passed through and are not awaited.

    Parameters
    ----------
    file
        An open file.
    """

    def __init__(self, file: Any) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._file, name)
        if name not in _AWAITED:
            return found

        async def awaited(*args: Any, **kwargs: Any) -> Any:
            return await asyncio.to_thread(found, *args, **kwargs)

        return awaited

    def __aiter__(self) -> AioFileObject:
        return self

    async def __anext__(self) -> Any:
        line = await self.readline()
        if not line:
            raise StopAsyncIteration
        return line

    async def __aenter__(self) -> AioFileObject:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()
