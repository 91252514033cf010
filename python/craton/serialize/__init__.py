"""Serialization of any Python object with zero-copy reads: pickle protocol 5 with out-of-band buffers.

An object is *encoded* into `Parts`: a short ``meta``, which contains a pickle, and buffers, which are the object's own
memory (such as the items of its arrays) and are not copied. Decoding makes an object whose arrays are views of the given
buffers, so its cost depends on the object's structure, not on its size. `serialize` writes the parts into one
*container*; the store writes them into shared memory.

Buffers are made of: the items of NumPy arrays (of every dtype, order and stride; masked and record arrays; not object
arrays), pandas objects, Arrow arrays and tables, Polars frames, SciPy's sparse matrices, PyTorch's tensors,
`memoryview`, `array.array`, `mmap.mmap`, and what other libraries pass to pickle as `pickle.PickleBuffer`. Functions,
classes of ``__main__`` and local classes are encoded by value, with cloudpickle; everything else as pickle does it.

The module itself is callable: ``craton.serialize(obj)`` is `serialize`.

Decoded objects
---------------
Arrays are read-only unless ``copy=True``. pandas copies a block before it changes it (copy-on-write), so frames can be
used as usual; only arrays outside frames and series, such as a `pandas.array`, cannot be changed in place. ``bytes``,
``str``, `bytearray`, `array.array`, `mmap.mmap` and tensors are always copies: Python's types must own their memory, and
PyTorch does not support read-only memory.

As with pickle, decoding can execute arbitrary code. Decode only data that you or your programs wrote.

Layouts
-------
All numbers are little-endian, and unsigned unless noted.

====================  ======================================================================================
container
====================  ======================================================================================
8 bytes               ``CRATONOB``
u32, u32              version (1), 0
u64 × 4               size of the container; offset and size of meta; number of buffers
(u64, u64) a buffer   offset from the container's start, a multiple of 64; and size
meta
the buffers
====================  ======================================================================================

====================  ======================================================================================
meta
====================  ======================================================================================
4 bytes, u32          ``COBM``, version (1)
u64, u32, u64         number of buffers, number of dtypes, total size of the next two entries
(u8, text) a dtype    length of the dtype's name, and the name, such as ``<f8``
a buffer              u8: 0 for plain memory; 1, 2 or 3 for an array in C order, in Fortran order, or with strides.
                      For an array, also: u8 number of dimensions, u16 index of the dtype, u64 for each dimension's
                      length. For one with strides, also: i64 for each stride in bytes, u64 offset of the first item
the pickle
====================  ======================================================================================
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from craton.serialize.container import deserialize, serialize
from craton.serialize.decoding import decode
from craton.serialize.encoding import Parts, encode

__all__ = ["Parts", "decode", "deserialize", "encode", "serialize"]


class _Callable(ModuleType):
    """The class of this module, which makes it callable as `serialize`."""

    def __call__(self, obj: Any) -> memoryview:
        return serialize(obj)


sys.modules[__name__].__class__ = _Callable
