"""Copies buffers and files of this process into buffers and files of other processes.

```python
# in the receiving process, such as in an actor's method:
ref = buffer_ref(self.address, memoryview(bytearray(100)))
# in the sending process:
await copy_to([data], [ref])
```

A `Carrier` moves the bytes: within a process they are copied; between processes they use the connection to the pool,
which reads them from its socket directly into the target buffer.
"""

from __future__ import annotations

import asyncio
import secrets
import weakref
from collections import defaultdict
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from craton.actor.errors import ActorError
from craton.actor.pool.base import request_handler
from craton.actor.pools import local_pool
from craton.actor.wire import frames
from craton.actor.wire.peers import Peers, ask_pool

__all__ = [
    "CARRIERS", "BlockSizeError", "BufferRef", "Carrier", "FileObjectRef", "buffer_ref", "copy_to", "file_object_ref",
]  # fmt: skip

BLOCK = 4 << 20
"""Bytes sent in one message, by default."""
# The most messages in flight to one pool, and the most buffers in one message.
_WINDOW, _MANY = 4, 256


class BlockSizeError(ActorError, ValueError, AssertionError):
    """The block size is less than one byte. Also an `AssertionError`, which programs written for Xoscar catch."""


class _Ref:
    """A name by which other processes refer to an object of this one. It does not keep the object alive."""

    _registered: ClassVar[weakref.WeakValueDictionary[tuple[str, bytes], Any]]
    __slots__ = ("address", "uid")

    def __init__(self, address: str, uid: bytes) -> None:
        self.address, self.uid = address, uid

    @classmethod
    def create(cls, found: Any, address: str, uid: bytes) -> Any:
        """Register an object of this process, and return a reference to it."""
        ref = cls(address, uid)
        try:
            cls._registered[address, uid] = found
        except TypeError:
            kind = type(found).__name__
            raise TypeError(
                f"a {kind} cannot be referred to, because it has no weak references; keep a memoryview of it, and refer to that"
            ) from None
        return ref

    @classmethod
    def _lookup(cls, ref: Any) -> Any:
        found = cls._registered.get((ref.address, ref.uid))
        if found is None:
            raise ActorError(
                f"{ref!r} refers to nothing in this process: its object was released, or belongs to another process"
            )
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.address, self.uid)

    def __hash__(self) -> int:
        return hash((self.address, self.uid))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and (self.address, self.uid) == (other.address, other.uid)  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(uid={self.uid.hex()}, address={self.address!r})"


@frames.simple
class BufferRef(_Ref):
    """A reference to a buffer.

    Attributes
    ----------
    address : str
        The address of a pool of the owning process.
    uid : bytes
        The object's name.
    """

    __slots__ = ()
    _registered: ClassVar[weakref.WeakValueDictionary[tuple[str, bytes], Any]] = weakref.WeakValueDictionary()

    @classmethod
    def get_buffer(cls, ref: BufferRef) -> Any:
        """Return the buffer; works only in the process that owns it.

        Raises
        ------
        ActorError
            The buffer was released, or belongs to another process.
        """
        return cls._lookup(ref)


@frames.simple
class FileObjectRef(_Ref):
    """A reference to an open file.

    Attributes
    ----------
    address : str
        The address of a pool of the owning process.
    uid : bytes
        The object's name.
    """

    __slots__ = ()
    _registered: ClassVar[weakref.WeakValueDictionary[tuple[str, bytes], Any]] = weakref.WeakValueDictionary()

    @classmethod
    def get_local_file_object(cls, ref: FileObjectRef) -> Any:
        """Return the file; works only in the process that owns it.

        Raises
        ------
        ActorError
            The file was released, or belongs to another process.
        """
        return cls._lookup(ref)


def _view(buffer: Any) -> memoryview:
    view = memoryview(buffer)
    if not view.c_contiguous:
        raise ValueError("a buffer must be C-contiguous; copy it with numpy.ascontiguousarray")
    return view.cast("B") if view.nbytes else memoryview(b"")


def buffer_ref(address: str, buffer: Any) -> BufferRef:
    """Return a reference to a buffer of this process, into which other processes can copy.

    Parameters
    ----------
    address : str
        The address of a pool of this process.
    buffer
        Writable memory, such as an array or a `memoryview`. The reference does not keep it alive.

    Raises
    ------
    TypeError
        It is not a buffer, or its class has no weak references.
    ValueError
        It is read-only, or not contiguous.
    """
    if memoryview(buffer).readonly:
        raise ValueError("the buffer is read-only: nothing can be copied into it")
    _view(buffer)
    return BufferRef.create(buffer, address, secrets.token_bytes(16))


def file_object_ref(address: str, fileobj: Any) -> FileObjectRef:
    """Return a reference to a file of this process, to which other processes can append.

    Parameters
    ----------
    address : str
        The address of a pool of this process.
    fileobj : AioFileObject
        An open file with an awaitable ``write``. The reference does not keep it open.
    """
    return FileObjectRef.create(fileobj, address, secrets.token_bytes(16))


async def copy_to(
    local_buffers_or_fileobjs: Sequence[Any], remote_refs: Sequence[Any], block_size: int | None = None
) -> None:
    """Copy buffers into remote buffers, and append files to remote files.

    Parameters
    ----------
    local_buffers_or_fileobjs : list
        Buffers, which must not change until this returns; or `AioFileObject`, which are read to their ends.
    remote_refs : list of BufferRef or FileObjectRef
        The target of each. A target buffer may be larger than its source, which is copied to its beginning.
    block_size : int, optional
        Bytes sent in one message; 4 MiB by default.

    Raises
    ------
    ValueError
        A list is empty, the lists differ in length, or a target buffer is too small.
    BlockSizeError
        The block size is less than one byte.
    ActorError
        A target buffer or file was released.
    """
    if not local_buffers_or_fileobjs or not remote_refs:
        raise ValueError("there is nothing to copy: both lists need at least one item")
    if len(local_buffers_or_fileobjs) != len(remote_refs):
        raise ValueError(
            f"{len(local_buffers_or_fileobjs)} sources cannot be copied to {len(remote_refs)} targets; give one target for each"
        )
    if block_size is not None and block_size < 1:
        raise BlockSizeError(f"`block_size` must be 1 byte or more, not {block_size!r}")
    block = block_size or BLOCK
    buffers: defaultdict[str, list[tuple[memoryview, BufferRef]]] = defaultdict(list)
    works: list[tuple[Any, tuple[Any, ...]]] = []
    for local, ref in zip(local_buffers_or_fileobjs, remote_refs, strict=True):
        if isinstance(ref, FileObjectRef) and hasattr(local, "read"):
            works.append((_copy_file, (local, ref, block)))
        elif isinstance(ref, BufferRef) and not hasattr(local, "read"):
            buffers[ref.address].append((_view(local), ref))
        else:
            raise TypeError(f"a {type(local).__name__} cannot be copied to {ref!r}")
    for address, pairs in buffers.items():
        carrier = next(one for one in CARRIERS if one.reaches(address))
        works.append((carrier.copy, (address, pairs, block)))
    await _together([work(*args) for work, args in works])


async def _together(works: Sequence[Coroutine[Any, Any, None]]) -> None:
    # Wait until every task has ended, also after an error; and do not let the error's traceback keep the tasks, and so
    # the memory of their frames, alive.
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        _ = [task.cancel() for task in tasks]  # a comprehension leaves no local variable that refers to a task
        await asyncio.gather(*tasks, return_exceptions=True)
        tasks.clear()


class Carrier(Protocol):
    """A transport that copies into buffers of a pool, such as shared memory or an RDMA fabric."""

    def reaches(self, address: str) -> bool:
        """Whether it can copy to the pool at that address."""

    async def copy(self, address: str, pairs: list[tuple[memoryview, BufferRef]], block: int) -> None:
        """Copy each buffer into its target, and return when all bytes have been written there.

        Parameters
        ----------
        address : str
            The pool's address.
        pairs : list
            Pairs of a source and a target.
        block : int
            The most bytes to send in one message.
        """


class InProcess:
    """Copies to pools of this event loop."""

    def reaches(self, address: str) -> bool:
        """Whether the pool runs in this event loop."""
        return local_pool(address) is not None

    async def copy(self, address: str, pairs: list[tuple[memoryview, BufferRef]], block: int) -> None:
        """Copy, and let other tasks run between blocks."""
        for view, ref in pairs:
            target = _place(ref, 0, view.nbytes)
            for start in range(0, view.nbytes, block):
                target[start : start + block] = view[start : start + block]
                await asyncio.sleep(0)


class Connections:
    """Sends blocks over the connection that calls use, few at a time, so that calls are not delayed behind them."""

    def reaches(self, address: str) -> bool:
        """Return True: it can be tried for any address."""
        return True

    async def copy(self, address: str, pairs: list[tuple[memoryview, BufferRef]], block: int) -> None:
        """Send blocks; the pool acknowledges each block that it has written."""
        peer = await Peers.here().get(address)
        messages = _messages(pairs, block)

        async def send() -> None:
            for where, views in messages:
                await peer.place("copy to buffers", where, views)

        await _together([send() for _ in range(_WINDOW)])


def _messages(pairs: list[tuple[memoryview, BufferRef]], block: int) -> Iterator[tuple[list[Any], list[memoryview]]]:
    # Small buffers share a message; large ones are split.
    where: list[Any] = []
    views: list[memoryview] = []
    room = block
    for view, ref in pairs:
        start = 0
        while start < view.nbytes:
            piece = view[start : start + room]
            where.append((ref, start))
            views.append(piece)
            start += piece.nbytes
            room -= piece.nbytes
            if not room or len(views) == _MANY:
                yield where, views
                where, views, room = [], [], block
    if views:
        yield where, views


CARRIERS: list[Carrier] = [InProcess(), Connections()]
"""The transports, in the order in which they are tried."""


def _place(ref: BufferRef, start: int, length: int) -> memoryview:
    target = _view(BufferRef.get_buffer(ref))
    if not 0 <= start <= start + length <= target.nbytes:
        raise ValueError(f"{start + length:,} bytes do not fit the {target.nbytes:,} bytes of {ref!r}")
    return target[start : start + length]


@frames.places("copy to buffers")
def _places(where: Any, lengths: Sequence[int]) -> list[memoryview]:
    return [_place(ref, start, length) for (ref, start), length in zip(where, lengths, strict=True)]


@request_handler("copy to buffers")
async def _copied(pool: Any, where: Any) -> None:
    # `_places` directed the bytes into the buffers as they were received; only the acknowledgement is left to send.
    return None


async def _copy_file(file: Any, ref: FileObjectRef, block: int) -> None:
    # Reading the next block overlaps with sending the last one.
    data = await file.read(block)
    while data:
        # An array, because Python before 3.11.8 and 3.12.2 crashes when it collects a `PickleBuffer` of a memoryview.
        block_of_it = np.frombuffer(data, np.uint8)
        written = asyncio.ensure_future(ask_pool(ref.address, "append to file", (ref, block_of_it)))
        try:
            data = await file.read(block)
        except BaseException:
            written.cancel()
            await asyncio.wait({written})
            raise
        await written


@request_handler("append to file")
async def _append(pool: Any, value: Any) -> None:
    ref, data = value[0], memoryview(value[1])
    file = FileObjectRef.get_local_file_object(ref)
    while data.nbytes:
        # A raw file may write only a part.
        written = await file.write(data)
        data = data[data.nbytes if written is None else written :]
