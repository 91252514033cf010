"""Any Python object as bytes, and back without copying them.

An object is *encoded* into `Parts`: a short ``meta``, which is pickle's protocol 5, and the memory that the object
owns, such as the items of its arrays, as buffers that are not copied. Decoding makes an object that looks into the
buffers it is given: reading costs what its structure costs, not what its data would. `serialize` puts the parts into
one *container*, and the store puts them into shared memory.

What becomes buffers: the items of NumPy arrays (of every dtype, order and stride; masked and record arrays; not those
of Python objects), pandas objects, Arrow arrays and tables, Polars frames, SciPy's sparse matrices, PyTorch's
tensors, `memoryview`, `array.array`, `mmap.mmap`, and what other libraries give to pickle as `pickle.PickleBuffer`.
Functions, classes of ``__main__`` and local classes are encoded by value, with cloudpickle; everything else as pickle
does it.

The module is the function too: ``craton.serialize(obj)`` is `serialize`.

What is read back
-----------------
Arrays are read-only unless ``copy=True``. pandas copies what it is about to change, so frames can be used as ever;
only arrays that pandas does not guard, such as a `pandas.array` by itself, refuse to be changed in place. ``bytes``,
``str``, `bytearray`, `array.array`, `mmap.mmap` and tensors own their memory in any case: Python's types must, and
PyTorch knows no read-only memory.

A container is trusted like a pickle: reading one runs what its maker wants. Read only what you or your programs wrote.

Layouts
-------
All numbers are little-endian and unsigned unless said otherwise.

====================  ======================================================================================
container
====================  ======================================================================================
8 bytes               ``CRATONOB``
u32, u32              version (1), 0
u64 × 4               bytes of the container; offset and bytes of meta; number of buffers
(u64, u64) a buffer   offset from the container's start, a multiple of 64, and bytes
meta
the buffers
====================  ======================================================================================

====================  ======================================================================================
meta
====================  ======================================================================================
4 bytes, u32          ``COBM``, version (1)
u64, u32, u64         number of buffers, number of dtypes, bytes of the next two
(u8, text) a dtype    NumPy's name of it, such as ``<f8``, after its length
a buffer              u8: 0, memory; or 1, 2, 3: an array in C's order, in Fortran's, with strides of its own.
                      An array goes on with u8 dimensions, u16 number of the dtype, u64 a length; one with strides
                      with i64 a stride in bytes, and u64 offset of its first item in the buffer
pickle's stream
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
    """The class of this module: calling the module calls its function of the same name."""

    def __call__(self, obj: Any) -> memoryview:
        return serialize(obj)


sys.modules[__name__].__class__ = _Callable
