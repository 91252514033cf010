"""Bytes from buffers and files here into buffers and files of other processes.

```python
# where the bytes shall be, such as in an actor's method:
ref = buffer_ref(self.address, memoryview(bytearray(100)))
# where they are:
await copy_to([data], [ref])
```

How they travel is a `Carrier`'s matter: within the process they are copied; else they go through the connection to the
pool, which reads them from its socket straight to where they shall be.
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
from craton.actor.pool.base import answers
from craton.actor.pools import local_pool
from craton.actor.wire import frames
from craton.actor.wire.peers import Peers, ask_pool

__all__ = [
    "CARRIERS", "BlockSizeError", "BufferRef", "Carrier", "FileObjectRef", "buffer_ref", "copy_to", "file_object_ref",
]  # fmt: skip

BLOCK = 4 << 20
"""Bytes that travel together, if not said otherwise."""
# Messages on their way to one pool, and buffers in one of them.
_WINDOW, _MANY = 4, 256


class BlockSizeError(ActorError, ValueError, AssertionError):
    """A block has less than one byte. Also an `AssertionError`, as which Xoscar's programs know it."""


class _Ref:
    """What names an object of a process elsewhere; the object lives as long as its owner keeps it."""

    _known: ClassVar[weakref.WeakValueDictionary[tuple[str, bytes], Any]]
    __slots__ = ("address", "uid")

    def __init__(self, address: str, uid: bytes) -> None:
        self.address, self.uid = address, uid

    @classmethod
    def create(cls, found: Any, address: str, uid: bytes) -> Any:
        """Name an object of this process."""
        ref = cls(address, uid)
        try:
            cls._known[address, uid] = found
        except TypeError:
            kind = type(found).__name__
            raise TypeError(f"a {kind} cannot be referred to; keep a memoryview of it, and refer to that") from None
        return ref

    @classmethod
    def _found(cls, ref: Any) -> Any:
        found = cls._known.get((ref.address, ref.uid))
        if found is None:
            raise ActorError(f"{ref!r} refers to nothing in this process: its owner has let go of it, or is elsewhere")
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
        Its pool's.
    uid : bytes
        Its name there.
    """

    __slots__ = ()
    _known: ClassVar[weakref.WeakValueDictionary[tuple[str, bytes], Any]] = weakref.WeakValueDictionary()

    @classmethod
    def get_buffer(cls, ref: BufferRef) -> Any:
        """Return the buffer, in the process that has it.

        Raises
        ------
        ActorError
            Nobody has it any more, or another process has it.
        """
        return cls._found(ref)


@frames.simple
class FileObjectRef(_Ref):
    """A reference to an open file.

    Attributes
    ----------
    address : str
        Its pool's.
    uid : bytes
        Its name there.
    """

    __slots__ = ()
    _known: ClassVar[weakref.WeakValueDictionary[tuple[str, bytes], Any]] = weakref.WeakValueDictionary()

    @classmethod
    def get_local_file_object(cls, ref: FileObjectRef) -> Any:
        """Return the file, in the process that has it.

        Raises
        ------
        ActorError
            Nobody has it any more, or another process has it.
        """
        return cls._found(ref)


def _view(buffer: Any) -> memoryview:
    view = memoryview(buffer)
    if not view.c_contiguous:
        raise ValueError("the memory of a buffer must lie together, in C's order")
    return view.cast("B") if view.nbytes else memoryview(b"")


def buffer_ref(address: str, buffer: Any) -> BufferRef:
    """Return a reference to a buffer of this process, into which others can copy.

    Parameters
    ----------
    address : str
        The address of a pool of this process.
    buffer
        Memory that can be written to, such as an array or a `memoryview`. The reference does not keep it alive.

    Raises
    ------
    TypeError
        It is no buffer, or cannot be referred to.
    ValueError
        It is read-only, or does not lie together.
    """
    if memoryview(buffer).readonly:
        raise ValueError("the buffer is read-only: nothing can be copied into it")
    _view(buffer)
    return BufferRef.create(buffer, address, secrets.token_bytes(16))


def file_object_ref(address: str, fileobj: Any) -> FileObjectRef:
    """Return a reference to a file of this process, to which others can append.

    Parameters
    ----------
    address : str
        The address of a pool of this process.
    fileobj : AioFileObject
        Whose ``write`` is awaited. The reference does not keep it open.
    """
    return FileObjectRef.create(fileobj, address, secrets.token_bytes(16))


async def copy_to(
    local_buffers_or_fileobjs: Sequence[Any], remote_refs: Sequence[Any], block_size: int | None = None
) -> None:
    """Copy buffers into buffers, and files to files, which may be anywhere.

    Parameters
    ----------
    local_buffers_or_fileobjs : list
        Buffers, which must not change meanwhile; or `AioFileObject`, which are read to their ends.
    remote_refs : list of BufferRef or FileObjectRef
        Where to, one for each. A buffer may be larger than what is copied to its beginning.
    block_size : int, optional
        Bytes that travel together; 4 MiB by default.

    Raises
    ------
    ValueError
        There is nothing to copy, the lists are not of the same length, or a buffer is too small.
    BlockSizeError
        A block would have less than one byte.
    ActorError
        A buffer or file is not there any more.
    """
    if not local_buffers_or_fileobjs or not remote_refs:
        raise ValueError("there is nothing to copy: the lists of what and where to have an item each at least")
    if len(local_buffers_or_fileobjs) != len(remote_refs):
        raise ValueError(f"{len(local_buffers_or_fileobjs)} things cannot be copied to {len(remote_refs)} places")
    if block_size is not None and block_size < 1:
        raise BlockSizeError(f"a block has 1 byte or more, not {block_size!r}")
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
    # All end before this does; and an error takes along none of the memory that the frames on its way hold.
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        _ = [task.cancel() for task in tasks]  # no name of a task stays in the frame that the error keeps
        await asyncio.gather(*tasks, return_exceptions=True)
        tasks.clear()


class Carrier(Protocol):
    """A way for bytes into buffers of a pool, such as shared memory or a fabric."""

    def reaches(self, address: str) -> bool:
        """Whether it can carry something to the pool at that address."""

    async def copy(self, address: str, pairs: list[tuple[memoryview, BufferRef]], block: int) -> None:
        """Copy each of the buffers into the one that is referred to, and return when all bytes are there.

        Parameters
        ----------
        address : str
            The pool's.
        pairs : list
            What and where to.
        block : int
            Bytes that should travel together at most.
        """


class InProcess:
    """Copies within this process."""

    def reaches(self, address: str) -> bool:
        """Whether the pool is this process's, in this event loop."""
        return local_pool(address) is not None

    async def copy(self, address: str, pairs: list[tuple[memoryview, BufferRef]], block: int) -> None:
        """Copy, and let others go on between blocks."""
        for view, ref in pairs:
            target = _place(ref, 0, view.nbytes)
            for start in range(0, view.nbytes, block):
                target[start : start + block] = view[start : start + block]
                await asyncio.sleep(0)


class Connections:
    """Sends blocks through the connection that calls use, a few at a time: calls pass between them."""

    def reaches(self, address: str) -> bool:
        """Whether it can be tried: always."""
        return True

    async def copy(self, address: str, pairs: list[tuple[memoryview, BufferRef]], block: int) -> None:
        """Send blocks, each answered when it is where it shall be."""
        peer = await Peers.here().get(address)
        messages = _messages(pairs, block)

        async def send() -> None:
            for where, views in messages:
                await peer.place("copy to buffers", where, views)

        await _together([send() for _ in range(_WINDOW)])


def _messages(pairs: list[tuple[memoryview, BufferRef]], block: int) -> Iterator[tuple[list[Any], list[memoryview]]]:
    # Small buffers travel together, large ones in pieces.
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
"""The ways, in the order in which they are tried."""


def _place(ref: BufferRef, start: int, length: int) -> memoryview:
    target = _view(BufferRef.get_buffer(ref))
    if not 0 <= start <= start + length <= target.nbytes:
        raise ValueError(f"{start + length:,} bytes do not fit the {target.nbytes:,} bytes of {ref!r}")
    return target[start : start + length]


@frames.places("copy to buffers")
def _places(where: Any, lengths: Sequence[int]) -> list[memoryview]:
    return [_place(ref, start, length) for (ref, start), length in zip(where, lengths, strict=True)]


@answers("copy to buffers")
async def _copied(pool: Any, where: Any) -> None:
    # The bytes are there already.
    return None


async def _copy_file(file: Any, ref: FileObjectRef, block: int) -> None:
    # The next block is read while the last one travels.
    data = await file.read(block)
    while data:
        # An array, and not a `PickleBuffer`: Python before 3.11.8 and 3.12.2 crashes when it collects one of a memoryview.
        block_of_it = np.frombuffer(data, np.uint8)
        written = asyncio.ensure_future(ask_pool(ref.address, "append to file", (ref, block_of_it)))
        try:
            data = await file.read(block)
        except BaseException:
            written.cancel()
            await asyncio.wait({written})
            raise
        await written


@answers("append to file")
async def _append(pool: Any, value: Any) -> None:
    ref, data = value[0], memoryview(value[1])
    file = FileObjectRef.get_local_file_object(ref)
    while data.nbytes:
        # A raw file may take a part of it only.
        written = await file.write(data)
        data = data[data.nbytes if written is None else written :]
