"""Objects survive a round trip through parts and containers: equal, of the same types, and without copying."""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import functools
import gc
import mmap
import operator
import pathlib
import pickle
import re
import subprocess
import sys
import types
import uuid
import weakref
import zoneinfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import craton
from craton.serialize import Parts, decode, encode


def through_parts(obj, *, copy=False):
    parts = encode(obj)
    # Read-only memory, as a store returns it.
    return decode(parts.meta, [memoryview(bytes(buffer)) for buffer in parts.buffers], copy=copy)


def through_container(obj, *, copy=False):
    return craton.deserialize(craton.serialize(obj), copy=copy)


@pytest.fixture(params=[through_parts, through_container])
def again(request):
    return request.param


def encoded_parts(obj) -> Parts:
    return encode(obj)


def same(left, right) -> None:
    """Assert that two objects are equal, and that their types are equal at every level."""
    assert type(left) is type(right)
    if isinstance(left, np.ndarray):
        assert left.dtype == right.dtype
        assert left.shape == right.shape
        if left.dtype.kind in "fc":
            np.testing.assert_array_equal(left, right)
            if left.dtype.num not in (13, 16):  # long double has padding
                assert left.tobytes() == right.tobytes()
        else:
            assert repr(left.tolist()) == repr(right.tolist())
    elif isinstance(left, dict):
        assert list(left) == list(right)
        for key in left:
            same(left[key], right[key])
    elif isinstance(left, list | tuple):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            same(one, other)
    elif isinstance(left, decimal.Decimal):
        assert repr(left) == repr(right)
    else:
        assert left == right or (left != left and right != right)


# ---- plain objects ----


class Colour(enum.Enum):
    RED = 1


class Flags(enum.IntFlag):
    A = 1
    B = 2


@dataclasses.dataclass
class Point:
    x: float
    items: list = dataclasses.field(default_factory=list)


Pair = collections.namedtuple("Pair", "first second")


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __eq__(self, other):
        return (self.a, self.b) == (other.a, other.b)

    __hash__ = None


class OwnError(ValueError):
    def __init__(self, message, code):
        super().__init__(message)
        self.code = code

    def __reduce__(self):
        return OwnError, (self.args[0], self.code)


PLAIN = {
    "none": None,
    "bool": True,
    "int": -(1 << 200),
    "float": float("nan"),
    "complex": 1 + 2j,
    "str": "é\ud800" + "x" * 100_000,
    "bytes": b"\0" * 200_000,
    "bytearray": bytearray(b"abc" * 50_000),
    "nested": {"a": [(1, 2), {3, frozenset({4})}, {"b": None}], 5: ...},
    "NotImplemented": [NotImplemented, type(None), type(...), type(NotImplemented), int, Exception],
    "decimal": decimal.Decimal("1.10"),
    "fraction": fractions.Fraction(1, 3),
    "datetime": dt.datetime(2020, 1, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Paris")),
    "date": [dt.date(1, 1, 1), dt.time(1, 2), dt.timedelta(3), dt.UTC],
    "enum": [Colour.RED, Flags.A | Flags.B],
    "dataclass": Point(1.0, [1]),
    "namedtuple": Pair(1, "b"),
    "slots": Slotted(1, "b"),
    "path": pathlib.PurePosixPath("/a/b"),
    "uuid": uuid.UUID(int=5),
    "pattern": re.compile("a+", re.IGNORECASE),
    "range": range(1, 10, 2),
    "slice": slice(1, None, 2),
    "deque": collections.deque([1, 2], 5),
    "counter": collections.Counter("abca"),
    "ordered": collections.OrderedDict(b=1, a=2),
    "defaultdict": collections.defaultdict(list, a=[1]),
    "array": array.array("d", range(10_000)),
    "builtin": [len, operator.add, str.upper, np.add],
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_objects(name: str, again) -> None:
    obj = PLAIN[name]
    back = again(obj)
    same(obj, back)
    same(back, pickle.loads(pickle.dumps(obj, 5)))


def test_exceptions(again) -> None:
    error = again(OwnError("what", 7))
    assert (type(error), error.args, error.code) == (OwnError, ("what",), 7)


def test_partials_and_methods(again) -> None:
    partial = again(functools.partial(int, base=2))
    assert partial("101") == 5
    assert again([1, 2].index)(2) == 1


def test_shared_references_and_cycles(again) -> None:
    items = np.arange(5.0)
    ring: list = [items, items, {"items": items}]
    ring.append(ring)
    back = again(ring)
    assert back[3] is back
    assert back[0] is back[1] is back[2]["items"]
    assert len(encode(ring).buffers) == 1
    same_list = [1]
    back = again([np.arange(3), same_list, same_list])
    assert back[1] is back[2]


def test_arrays_alone_and_with_others(again) -> None:
    a, b = np.arange(4), np.ones((2, 3), "f4")
    for obj in (
        a,
        [a, b],
        (a, (b,)),
        {"a": a, "b": [b, 1, "c", None]},
        [a, {1, 2}],
        [a, a],
        {(1, 2): a},
        [a, [], {}, ()],
        [a, *range(1000)],
        [*range(1000), a],
    ):
        back = again(obj)
        same(obj, back)


# ---- code ----


def adder(n):
    def add(x):
        return x + n

    return add


def test_code(again) -> None:
    assert again(adder(3))(4) == 7
    assert again(lambda x: x * 2)(4) == 8

    class Local:
        scale = 3

        def __init__(self, x):
            self.x = x

        def scaled(self):
            return self.x * self.scale

    back = again([Local(2), Local])
    assert type(back[0]) is back[1]
    assert back[0].scaled() == 6
    module = types.ModuleType("made_here")
    module.value = 5
    assert again(module).value == 5
    assert again(np) is np
    assert again(adder) is adder
    assert list(again({"a": 1}.keys())) == ["a"]


def test_functions_keep_their_arrays_out_of_band(again) -> None:
    table = np.arange(1000.0)
    look_up = lambda i: table[i]  # noqa: E731
    assert [buffer.nbytes for buffer in encode(look_up).buffers] == [8000]
    assert again(look_up)(3) == 3.0


def test_recursive_functions(again) -> None:
    def factorial(n):
        return 1 if n == 0 else n * factorial(n - 1)

    assert again(factorial)(5) == 120


def test_cloudpickle_is_imported_for_code_alone() -> None:
    script = """
import sys, craton, numpy, array
craton.deserialize(craton.serialize([numpy.arange(3), {"a": len, "b": array.array("d", [1])}, sys.intern, dict]))
assert "cloudpickle" not in sys.modules
class Here:
    pass
data = craton.serialize([Here, Here(), lambda: 1])
assert "cloudpickle" in sys.modules
sys.stdout.buffer.write(bytes(data))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    kind, value, function = craton.deserialize(done.stdout)
    assert type(value) is kind
    assert function() == 1


def test_unpicklable_objects_raise() -> None:
    with pytest.raises(TypeError, match="generator"):
        encode(letter for letter in "ab")


# ---- memory of the standard library ----


@pytest.mark.parametrize("form", "bBhHiIlLqQfd?c")
def test_memoryviews(form: str, again) -> None:
    view = memoryview(bytes(range(64))).cast(form)
    back = again(view)
    assert (back.format, back.shape, back.readonly) == (form, view.shape, True)
    assert back.tobytes() == view.tobytes()


def test_memoryviews_of_many_dimensions(again) -> None:
    view = memoryview(np.arange(24.0).reshape(2, 3, 4))
    assert again(view).tolist() == view.tolist()
    assert again(view[::-1]).tolist() == view[::-1].tolist()
    swapped = memoryview(np.arange(3, dtype=">i4"))
    assert again(swapped).tobytes() == swapped.tobytes()
    assert again(memoryview(b"")).tobytes() == b""
    assert again(memoryview(np.empty((0, 3)))).nbytes == 0


def test_mmap(again) -> None:
    with mmap.mmap(-1, 5000) as mapping:
        mapping[:3] = b"abc"
        back = again(mapping)
        assert isinstance(back, mmap.mmap)
        assert back[:] == mapping[:]
        back.close()


def test_pickle_buffers(again) -> None:
    assert bytes(again(pickle.PickleBuffer(b"abc"))) == b"abc"


def test_large_bytes_are_not_copied_before_they_are_written() -> None:
    data = b"x" * (1 << 20)
    assert any(chunk is data for chunk in encode({"data": data}).chunks)


# ---- NumPy ----

DTYPES = [
    *"?bBhHiIlLqQefdgFDG",
    ">f8",
    ">i2",
    ">c16",
    "<M8[ns]",
    ">M8[us]",
    "M8[25s]",
    "M8",
    "m8[D]",
    "m8",
    "S5",
    "U7",
    ">U3",
    "V6",
    "i4,f8",
]
NESTED = np.dtype([("a", "<i2"), ("b", [("c", ">f8", (2,)), ("d", "M8[s]")])], align=True)
PADDED = np.dtype({"names": ["x", "y"], "formats": ["u1", "<f8"], "offsets": [3, 16], "itemsize": 32})


def filled(shape, dtype):
    dtype = np.dtype(dtype)
    if dtype.names is not None or dtype.kind == "V":
        size = int(np.prod(shape)) * dtype.itemsize
        return (np.arange(size) % 7).astype("u1").view(dtype).reshape(shape)
    numbers = np.arange(int(np.prod(shape)))
    if dtype.kind in "Mm":
        return numbers.astype("i8").astype(dtype).reshape(shape)
    return numbers.astype(dtype).reshape(shape)


SHAPED = {
    "one": lambda a: a.ravel(),
    "C": lambda a: a,
    "F": lambda a: np.asfortranarray(a),
    "transposed": lambda a: a.transpose(1, 2, 0),
    "reversed": lambda a: a[::-1],
    "reversed within": lambda a: a[:, ::-1, ::-1],
    "reversed, transposed": lambda a: a[:, ::-1].T,
    "steps": lambda a: a[:, ::2],
    "steps back": lambda a: a[::-2, :, 1:3],
    "transposed steps": lambda a: a[:, 1::2, ::-2].transpose(2, 0, 1),
    "column": lambda a: a[:, :, 1],
    "0-d": lambda a: a[1, 1, 1:2].reshape(()),
    "empty": lambda a: a[:, :0],
    "empty reversed": lambda a: a[::-1, 3:3, ::2],
    "broadcast": lambda a: np.broadcast_to(a[:, :, None], (4, 5, 3, 6)),
    "broadcast back": lambda a: np.broadcast_to(a[:, ::-2, None], (4, 3, 3, 6)),
    "broadcast item": lambda a: np.broadcast_to(a[0, 0, 0], (10, 10)),
    "windows": lambda a: np.lib.stride_tricks.sliding_window_view(a.ravel(), 9),
    "windows back": lambda a: np.lib.stride_tricks.sliding_window_view(a.ravel()[::-2], 7),
}


@pytest.mark.parametrize("dtype", [*DTYPES, NESTED, PADDED], ids=str)
@pytest.mark.parametrize("shaped", SHAPED)
def test_arrays(dtype, shaped: str) -> None:
    obj = SHAPED[shaped](filled((4, 5, 6), dtype))
    for again in (through_parts, through_container):
        back = again(obj)
        same(obj, back)
        assert not back.flags.writeable
        copied = again(obj, copy=True)
        same(obj, copied)
        assert copied.flags.writeable or copied.dtype.names
        back = again([{"x": obj}, {1}])[0]["x"]
        same(obj, back)


@pytest.mark.parametrize("shaped", ["C", "F", "transposed", "reversed", "reversed, transposed", "broadcast", "windows"])
def test_dense_memory_is_not_copied_and_strides_are_kept(shaped: str) -> None:
    obj = SHAPED[shaped](filled((4, 5, 6), "f8"))
    parts = encode(obj)
    assert parts.buffers[0].nbytes == 960
    assert np.shares_memory(np.frombuffer(parts.buffers[0], "u1"), obj)
    back = decode(parts.meta, parts.buffers)
    assert back.strides == obj.strides
    assert np.shares_memory(back, obj)


def test_gaps_and_broadcast_axes_are_not_written() -> None:
    wide = np.broadcast_to(np.arange(10.0)[::2, None], (5, 10_000_000))
    assert encode(wide).buffers[0].nbytes == 40
    assert encode(np.arange(1000.0)[::10]).buffers[0].nbytes == 800


@pytest.mark.parametrize("copy", [False, True])
def test_decoding_copies_only_on_request(copy: bool) -> None:
    obj = [np.arange(1000.0), np.ones((3, 4), order="F"), np.arange(10)[::-1], {"a": np.arange(5), "b": {1}}]
    for part in (obj, obj[:3]):
        data = craton.serialize(part)
        whole = np.frombuffer(data, "u1")
        back = craton.deserialize(data, copy=copy)
        for item in back[:3]:
            assert np.shares_memory(item, whole) is not copy
            assert item.flags.writeable is copy
            assert item.flags.owndata is copy
            assert item.flags.aligned


def test_an_array_keeps_the_memory() -> None:
    class Owner(bytearray):
        pass

    owner = Owner(bytes(craton.serialize([np.arange(100.0), np.arange(3)])))
    gone = weakref.ref(owner)
    first, second = craton.deserialize(owner)
    with pytest.raises(BufferError):
        owner.clear()
    del owner, first
    gc.collect()
    assert gone() is not None
    assert second.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="WRITEABLE"):
        second.flags.writeable = True
    del second
    gc.collect()
    assert gone() is None


OTHERS = {
    "objects": np.array([1, "a", None, [2]], dtype=object),
    "objects 2-D": np.array([[{"a": 1}, 2.5]], dtype=object),
    "records with objects": np.array([(1, "a")], dtype=[("a", "i4"), ("b", object)]),
    "strings": np.array(["a", "b" * 50], dtype=np.dtypes.StringDType()),
    "strings with missing": np.array(["a", np.nan], dtype=np.dtypes.StringDType(na_object=np.nan)),
    "no fields": np.zeros(3, dtype=[]),
    "metadata": np.zeros(3, np.dtype("f8", metadata={"unit": "m"})),
    "empty text": np.zeros(3, "U0"),
    "scalars": [np.float32(1.5), np.datetime64("2020", "Y"), np.void(b"ab"), np.longdouble(1) / 3, np.bool_(True)],
    "dtypes": [np.dtype("f8"), NESTED, PADDED, np.dtypes.StringDType()],
    "polynomial": np.polynomial.Polynomial([1, 2, 3]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_arrays(name: str, again) -> None:
    obj = OTHERS[name]
    back = again(obj)
    same(obj, back)
    same(back, pickle.loads(pickle.dumps(obj, 5)))
    if name == "metadata":
        assert back.dtype.metadata == {"unit": "m"}


class Tagged(np.ndarray):
    def __array_finalize__(self, obj):
        self.tag = getattr(obj, "tag", "none")


class Annotated(np.ndarray):
    def __reduce__(self):
        make, arguments, state = super().__reduce__()
        return make, arguments, (state, self.__dict__)

    def __setstate__(self, state):
        super().__setstate__(state[0])
        self.__dict__.update(state[1])


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_subclasses(again, tmp_path) -> None:
    matrix = np.matrix([[1.0, 2.0], [3.0, 4.0]])
    same(matrix, again(matrix))
    records = np.rec.array([(1, 2.5), (2, 3.5)], dtype=[("a", "i4"), ("b", "f8")])
    back = again(records)
    assert (type(back), back.dtype, back.b.tolist()) == (np.recarray, records.dtype, [2.5, 3.5])
    assert type(back[0]) is np.record
    text = np.char.array(["a ", "b"])
    assert again(text).tolist() == text.tolist()
    mapped = np.memmap(tmp_path / "x", "f8", "w+", shape=(10,))
    mapped[:] = np.arange(10)
    back = again(mapped)
    assert (type(back), back.tolist()) == (np.memmap, list(range(10)))
    assert len(encode(mapped).buffers) == 1
    tagged = np.arange(3).view(Tagged)
    assert (type(again(tagged)), again(tagged).tag) == (Tagged, "none")
    annotated = np.arange(3).view(Annotated)
    annotated.note = "kept"
    back = again(annotated)
    assert (type(back), back.note, back.tolist()) == (Annotated, "kept", [0, 1, 2])


@pytest.mark.parametrize("mask", [np.ma.nomask, [True, False, True], False])
def test_masked(mask, again) -> None:
    obj = np.ma.MaskedArray([1.0, 2.0, 3.0], mask=mask, fill_value=7, hard_mask=True)
    obj._fill_value = obj._fill_value
    back = again(obj)
    assert type(back) is np.ma.MaskedArray
    assert (back.fill_value, back.hardmask, back.dtype) == (7, True, obj.dtype)
    assert back.data.tolist() == obj.data.tolist()
    assert np.ma.getmaskarray(back).tolist() == np.ma.getmaskarray(obj).tolist()
    assert (back._mask is np.ma.nomask) == (obj._mask is np.ma.nomask)
    assert back.sum() is np.ma.masked if back.mask.all() else back.sum() == obj.sum()
    parts = encode(obj)
    back = decode(parts.meta, parts.buffers)
    assert np.shares_memory(back.data, obj.data)
    plain = again(np.ma.masked_array([1, 2], mask=[0, 1]))
    assert plain.fill_value == 999999
    assert plain.filled().tolist() == [1, 999999]
    records = np.ma.array([(1, 2.0)], mask=[(True, False)], dtype=[("a", "i4"), ("b", "f8")])
    assert again(records).mask.tolist() == records.mask.tolist()


def test_ten_thousand_buffers(again) -> None:
    obj = [np.full(i % 7, i, f"f{4 + 4 * (i % 2)}") for i in range(10_000)]
    same(obj, again(obj))
    same([obj, {1}], again([obj, {1}]))


def test_many_dtypes(again) -> None:
    obj = [np.zeros(2, f"S{1 + i}") for i in range(300)]
    same(obj, again(obj))


arrays = hnp.arrays(
    st.one_of(hnp.scalar_dtypes(), hnp.unicode_string_dtypes(), hnp.byte_string_dtypes(), hnp.array_dtypes()),
    hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
)
leaves = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.decimals(), st.dates(), arrays
)
objects = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.tuples(inner, inner), st.dictionaries(st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(objects)
@settings(deadline=None, max_examples=200)
def test_any_object(obj) -> None:
    for copy in (False, True):
        same(obj, through_parts(obj, copy=copy))
        same(obj, through_container(obj, copy=copy))


@given(arrays, st.data())
@settings(deadline=None, max_examples=200)
def test_any_view(obj, data) -> None:
    if obj.ndim:
        obj = obj[data.draw(hnp.basic_indices(obj.shape, allow_ellipsis=True, allow_newaxis=True))]
        if not isinstance(obj, np.ndarray):
            return
        obj = obj.transpose(data.draw(st.permutations(range(obj.ndim))))
    same(obj, through_container(obj))
    same(obj, through_container(obj, copy=True))
