"""The layout of a container, and the errors of damaged and foreign bytes."""

from __future__ import annotations

import decimal
import itertools
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import craton
from craton.serialize import container, decode, encode


def same(left, right) -> None:
    """Equal, with equal types all the way down."""
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


def test_the_package_is_callable() -> None:
    import craton.serialize as module

    assert craton.serialize is module
    assert module([1])[:8] == b"CRATONOB"
    assert craton.deserialize is module.deserialize
    with pytest.raises(TypeError):
        module()


def test_a_container_is_aligned() -> None:
    data = craton.serialize([np.arange(3), {1}, np.arange(5.0), b"x" * 100_000])
    assert data.readonly
    assert np.frombuffer(data, "u1").ctypes.data % 64 == 0
    numbers = struct.unpack_from("<8sIIQQQQQQQQ", data)
    assert numbers[:4] == (b"CRATONOB", 1, 0, len(data))
    assert numbers[6] == 2
    assert (numbers[7] % 64, numbers[8], numbers[9] % 64, numbers[10]) == (0, 24, 0, 40)


def test_trailing_bytes_after_a_container_are_ignored() -> None:
    data = bytes(craton.serialize([np.arange(3), "a"]))
    same(craton.deserialize(data + b"rest"), [np.arange(3), "a"])
    same(craton.deserialize(bytearray(data)), [np.arange(3), "a"])
    same(craton.deserialize(np.frombuffer(data, "u1")), [np.arange(3), "a"])


def test_a_truncated_container_is_refused_at_each_length() -> None:
    data = bytes(craton.serialize([np.arange(3), np.ones((2, 2)), "a"]))
    for length in range(len(data)):
        with pytest.raises(ValueError, match=r"truncated|starts with"):
            craton.deserialize(data[:length])


@given(st.data())
@settings(deadline=None, max_examples=300)
def test_damaged_metadata_never_reads_out_of_bounds(data) -> None:
    whole = bytearray(craton.serialize([np.arange(3), np.arange(6)[::-2], np.ones((2, 2))]))
    meta = struct.unpack_from("<Q", whole, 24)[0]
    described = struct.unpack_from("<Q", whole, meta + 20)[0]
    at = data.draw(st.integers(8, meta + 28 + described - 1))
    whole[at : at + 1] = data.draw(st.binary(min_size=1, max_size=1))
    try:
        back = craton.deserialize(whole)
    except (ValueError, OverflowError, EOFError, pickle.UnpicklingError):
        return
    begin = np.frombuffer(whole, "u1").ctypes.data
    for item in back:
        # If the damaged byte is a buffer's kind, an array is decoded as plain memory.
        read = item if isinstance(item, np.ndarray) else np.frombuffer(item, "u1")
        assert read.tobytes() is not None
        low, high = np.lib.array_utils.byte_bounds(read)
        assert read.size == 0 or (begin <= low and high <= begin + len(whole))


def test_errors_name_foreign_data_and_newer_versions() -> None:
    data = bytes(craton.serialize([np.arange(3)]))
    with pytest.raises(ValueError, match=r"PK.*CRATONOB.*craton\.serialize"):
        craton.deserialize(b"PK\3\4" + b"\0" * 100)
    with pytest.raises(ValueError, match=r"version 2.*reads version 1"):
        craton.deserialize(data[:8] + b"\2\0\0\0" + data[12:])
    with pytest.raises(TypeError):
        craton.deserialize("text")
    with pytest.raises(BufferError, match="contiguous"):
        craton.deserialize(memoryview(data)[::2])


def test_meta_and_buffers_must_fit() -> None:
    parts = encode([np.arange(3), {1}])
    with pytest.raises(ValueError, match="1 buffers, 0 were given"):
        decode(parts.meta, [])
    with pytest.raises(ValueError, match=r"shape \[3\] needs 24 bytes, its buffer has 23"):
        decode(parts.meta, [bytes(23)])
    with pytest.raises(ValueError, match="meta starts with"):
        decode(b"nothing of ours, but long enough", [])
    for length in range(40):
        with pytest.raises(ValueError, match="truncated"):
            decode(parts.meta[:length], parts.buffers)


def test_arrays_of_objects_cannot_be_forged() -> None:
    meta = encode([np.arange(3), {1}]).meta.replace(b"<i8", b"|O8")
    with pytest.raises((ValueError, TypeError)):
        decode(meta, [bytes(24)])


def test_parts() -> None:
    parts = encode([np.arange(3), {1}])
    assert parts.nbytes == len(parts.meta) + 24
    assert "1 buffers" in repr(parts)
    target = bytearray(container.container_size(parts))
    container.write_container(parts, memoryview(target))
    assert bytes(target[:100]) == bytes(craton.serialize([np.arange(3), {1}])[:100])


def test_copy_into() -> None:
    from craton._native import copy_into

    source = [
        np.random.default_rng(n).integers(0, 256, size, "u1")
        for n, size in enumerate((0, 1, 100, 5_000_001, 4_000_000))
    ]
    target = np.zeros(sum(map(len, source)), "u1")
    ends = np.cumsum([0, *map(len, source)])
    assert copy_into([target[a:b] for a, b in itertools.pairwise(ends)], source) == len(target)
    assert np.array_equal(target, np.concatenate(source))
    with pytest.raises(ValueError, match="copy 0: 2 bytes do not fill a target of 3"):
        copy_into([bytearray(3)], [b"ab"])
    with pytest.raises(ValueError, match="1 targets for 0 sources"):
        copy_into([bytearray(3)], [])
    with pytest.raises(BufferError, match="copy 0"):
        copy_into([b"abc"], [b"abc"])
    with pytest.raises(BufferError, match="copy 0"):
        copy_into([np.zeros(4, "u1")[::2]], [b"ab"])
