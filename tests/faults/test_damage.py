"""Damaged page files: reading one fails with its name, and all others are read."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from children import append, intact

from craton.store import CorruptPage, LocalitySet, Store

LIMIT = 8 << 20
ROWS = 500
Damage = Callable[[Path, Path], None]


def rows_of(number: int) -> pa.RecordBatch:
    """Return rows that depend on a number. Their page file has the same length for every number."""
    values = np.random.default_rng(number).integers(0, 1 << 60, ROWS)
    return pa.record_batch({"n": values, "text": [f"{value:020}" for value in values]})


def cut(length: int) -> Damage:
    return lambda path, _: os.truncate(path, length)


def flip(place: int, bit: int) -> Damage:
    def damage(path: Path, _: Path) -> None:
        content = bytearray(path.read_bytes())
        content[min(place, len(content) - 1)] ^= 1 << bit
        path.write_bytes(content)

    return damage


def grow(path: Path, _: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\0" * 64)


def exchange(path: Path, other: Path) -> None:
    path.write_bytes(other.read_bytes())


def foreign(path: Path, _: Path) -> None:
    table = pa.table({"n": range(ROWS)})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def same_length(path: Path, _: Path) -> None:
    length = path.stat().st_size
    foreign(path, path)
    os.truncate(path, length)


def folder(path: Path, _: Path) -> None:
    path.unlink()
    path.mkdir()


def damages(length: int, every: int, chance: random.Random) -> dict[str, Damage]:
    """Return damages to a file of `length` bytes: at every byte near its ends, and every `every` bytes in between."""
    places = {*range(64), *range(64, length - 64, every), *range(length - 64, length)}
    found: dict[str, Damage] = {f"bit at {place}": flip(place, chance.randrange(8)) for place in sorted(places)}
    found |= {f"cut to {size}": cut(size) for size in [*range(0, length, 4 * every), length - 8, length - 1]}
    named = {"longer": grow, "another page": exchange, "foreign": foreign, "foreign of the same length": same_length}
    links: dict[str, Damage] = {
        "gone": lambda path, _: path.unlink(),
        "a folder": folder,
        "empty": lambda path, _: path.write_bytes(b"") and None,
        "zeros": lambda path, _: path.write_bytes(b"\0" * length) and None,
    }
    return found | named | links


@pytest.fixture(params=["plain", "lz4", "direct"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    compression = "lz4" if request.param == "lz4" else "none"
    direct = request.param == "direct"
    with Store.open(LIMIT, directory=tmp_path, compression=compression, direct_io=direct) as made:
        yield made


def file_of(parent: Path, pages: LocalitySet, number: int) -> Path:
    (path,) = parent.glob(f"*/{pages.number}/{number}.arrow")
    return path


@pytest.mark.parametrize("every", [100, pytest.param(7, marks=pytest.mark.slow)])
def test_every_damage_is_named_and_refused(store: Store, tmp_path: Path, every: int) -> None:
    pages = store.create_set("pages", durability="write-through")
    append(pages, rows_of(0))
    length = file_of(tmp_path, pages, 0).stat().st_size
    cases = damages(length, every, random.Random(5))
    sound = append(pages, rows_of(1)).number
    damaged = {append(pages, rows_of(2 + place)).number: name for place, name in enumerate(cases)}
    with store.reserve(LIMIT):  # evicts all pages
        pass
    assert {info.location for info in pages.pages()} == {"disk"}
    paths = {number: file_of(tmp_path, pages, number) for number in damaged}
    unchanged = []
    for number, name in damaged.items():
        before = paths[number].read_bytes()
        cases[name](paths[number], file_of(tmp_path, pages, sound))
        if paths[number].is_file() and paths[number].read_bytes() == before:
            unchanged.append(number)
    for number, name in damaged.items():
        if number in unchanged:
            continue
        for _ in range(2):
            with pytest.raises(OSError) as caught:
                pages.pin(number)
            assert isinstance(caught.value, CorruptPage) or name == "a folder", (name, caught.value)
            assert str(paths[number]) in str(caught.value), name
            if isinstance(caught.value, CorruptPage):
                assert f"page {pages.number}/{number} " in str(caught.value), name
    assert len(unchanged) <= len(cases) // 20
    for number in (0, sound, *unchanged):
        assert intact(pages.pin(number))
    with pytest.raises(OSError, match=r"\.arrow"):
        all(intact(page) for page in pages.reader())
    # The store stays usable: damaged pages can be dropped, and more pages appended.
    for number in damaged:
        store._native.drop_page(pages.number, number)
    for number in range(20):
        append(pages, rows_of(number))
    with store.reserve(LIMIT):
        pass
    assert all(intact(page) for page in pages.reader())
    print(f"\n{len(cases) - len(unchanged)} damages to files of {length} bytes, all refused by name")


def test_swapped_files(store: Store, tmp_path: Path) -> None:
    pages = store.create_set("pages", durability="write-through")
    for number in range(4):
        append(pages, rows_of(number))
    with store.reserve(LIMIT):
        pass
    first, second = (file_of(tmp_path, pages, number) for number in (0, 1))
    first.rename(tmp_path / "aside")
    second.rename(first)
    (tmp_path / "aside").rename(second)
    for number in (0, 1):
        with pytest.raises(CorruptPage, match=f"page {pages.number}/{number} "):
            pages.pin(number)
    assert intact(pages.pin(2))
    assert intact(pages.pin(3))
