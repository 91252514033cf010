"""The native module: what `crates/py` binds, seen from Python."""

from __future__ import annotations

import subprocess
import sys
import threading
from importlib import metadata

import pytest

from craton import _native

# Made with the reference implementation of xxHash (0.8.4, XXH3 with 128 bits, no seed), bytes reversed.
VECTORS = [
    (b"", "7f498d4624c30160d8984701d306aa99"),
    (b"craton", "3437de2148c34605fe9e6ac139f6c010"),
    (b"a" * 1000, "7cdb477162afe7b39ca2daed65a31db0"),
]


@pytest.mark.parametrize(("data", "expected"), VECTORS, ids=["empty", "short", "long"])
def test_known_vectors(data: bytes, expected: str) -> None:
    assert _native.content_hash(data).hex() == expected


@pytest.mark.parametrize("length", [0, 1, 16, 17, 240, 241, 65_535, 65_536, 1_000_000])
def test_is_sixteen_bytes_of_the_content_alone(length: int) -> None:
    data = bytes(range(256)) * (length // 256 + 1)
    first = _native.content_hash(data[:length])
    again = _native.content_hash(bytes(bytearray(data[:length])))
    assert isinstance(first, bytes)
    assert len(first) == 16
    assert first == again
    assert first != _native.content_hash(data[: length + 1])


def test_does_not_depend_on_the_process() -> None:
    code = "from craton._native import content_hash; print(content_hash(b'craton').hex())"
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("0", "1")
    }
    assert seen == {VECTORS[1][1]}


def test_threads_agree_on_input_that_is_hashed_without_the_interpreter() -> None:
    data = bytes(4_000_000)
    expected = _native.content_hash(data)
    seen: list[bytes] = []
    threads = [threading.Thread(target=lambda: seen.append(_native.content_hash(data))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [expected] * 4


@pytest.mark.parametrize(
    "given", ["text", None, 3, bytearray(b"x"), memoryview(b"x"), [b"x"]], ids=lambda v: type(v).__name__
)
def test_refuses_what_is_not_bytes(given: object) -> None:
    with pytest.raises(TypeError, match=rf"content_hash\(\) takes bytes, got {type(given).__name__}: .*encode"):
        _native.content_hash(given)  # type: ignore[arg-type]


def test_takes_one_positional_argument() -> None:
    with pytest.raises(TypeError):
        _native.content_hash()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        _native.content_hash(data=b"x")  # type: ignore[call-arg]


def test_accepts_subclasses_of_bytes() -> None:
    class Name(bytes):
        pass

    assert _native.content_hash(Name(b"craton")).hex() == VECTORS[1][1]


def test_version_is_the_packages() -> None:
    try:
        installed = metadata.version("craton")
    except metadata.PackageNotFoundError:
        pytest.skip("craton runs from its source folder here, not installed")
    assert _native.__version__ == installed
