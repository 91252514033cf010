"""Encodes the storages of PyTorch tensors.

PyTorch's own pickling preserves storages that tensors share; only the bytes of storages become buffers. Writing to a
tensor over read-only memory would crash the process, so decoded storages are copies unless the memory is writable.
"""

from __future__ import annotations

from typing import Any

from craton.serialize.encoding import Encoder, Handler

__all__ = ["find"]


def find(kind: type) -> Handler | None:
    """Return the handler of a type, or None."""
    import torch

    if kind is torch.storage.TypedStorage:
        return _typed
    if kind is torch.UntypedStorage:
        return _untyped
    return None


def _typed(encoder: Encoder, storage: Any) -> Any:
    return _typed_of, (storage._untyped_storage, storage.dtype)


def _typed_of(untyped: Any, dtype: Any) -> Any:
    import torch

    return torch.storage.TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)


def _untyped(encoder: Encoder, storage: Any) -> Any:
    if storage.device.type != "cpu":
        return NotImplemented
    import torch

    first = encoder.shared.setdefault(("torch", storage.data_ptr(), storage.nbytes()), storage)
    if first is not storage:
        from craton import _native

        return _native.array, (first,)
    items = torch.empty(0, dtype=torch.uint8)
    items.set_(storage)
    return _untyped_of, (items.numpy(),)


def _untyped_of(items: Any) -> Any:
    import numpy as np
    import torch

    owned = items if items.flags.writeable else np.array(items)
    return torch.from_numpy(owned).untyped_storage()
