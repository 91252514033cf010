"""``put``, ``get`` and ``cache``: one copy of an object, shared by this process and others."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import craton
from craton.store import Ref, Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(256 << 20, directory=tmp_path) as made:
        yield made


def child(code: str, *arguments: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments], capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds; the test fails if it does not within a minute."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        os.sched_yield()


@pytest.mark.parametrize(
    "obj",
    [None, 1, "text", [1, {"a": (2, 3)}], {1, 2}, b"bytes", np.arange(10).reshape(2, 5), np.float32(1.5)],
    ids=repr,
)
def test_round_trip(store: Store, obj: object) -> None:
    got = craton.get(craton.put(obj, store=store))
    assert type(got) is type(obj)
    np.testing.assert_equal(got, obj)


def test_arrays_are_views_of_one_copy(store: Store) -> None:
    ref = craton.put({"weights": [np.arange(100_000.0), np.arange(10)]}, store=store)
    one, two = craton.get(ref), craton.get(ref)
    assert np.shares_memory(one["weights"][0], two["weights"][0])
    assert not one["weights"][0].flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        one["weights"][0][0] = 1
    copied = craton.get(ref, copy=True)
    copied["weights"][0][0] = 7
    assert one["weights"][0][0] == 0


def test_views_keep_their_memory(store: Store) -> None:
    array = craton.get(craton.put(np.arange(100_000), store=store))
    gc.collect()
    assert store.counters()["slab_used"] > 0
    assert array.sum() == 100_000 * 99_999 // 2
    del array
    gc.collect()
    assert store.counters()["slab_used"] == 0


def test_frames_come_back_equal(store: Store) -> None:
    frame = pd.DataFrame(
        {"a": [1, 2, None], "s": ["x", None, "y"], "c": pd.Categorical(["u", "v", "u"])}, index=[3, 1, 2]
    )
    pd.testing.assert_frame_equal(craton.get(craton.put(frame, store=store)), frame)
    got = craton.get(craton.put(frame, store=store))
    got.loc[3, "a"] = 9
    assert got["a"].tolist()[:2] == [9, 2]
    table = pl.DataFrame({"n": [1, 2], "s": ["a", None]})
    assert craton.get(craton.put(table, store=store)).equals(table)


def test_columns_of_frames_are_views(store: Store) -> None:
    rows = 50_000
    frame = pd.DataFrame(
        {
            "i": np.arange(rows),
            "f": np.arange(rows) / 7,
            "s": pd.array([f"text {i}" for i in range(rows)], dtype="str"),
            "a": pd.array(range(rows), dtype="int64[pyarrow]"),
            "n": pd.array([None, *range(1, rows)], dtype="Int64"),
            "t": pd.date_range("2024-01-01", periods=rows, freq="s"),
            "c": pd.Categorical(["x", "y"] * (rows // 2)),
        }
    )
    ref = craton.put(frame, store=store)
    (page,) = (ref.pages.pin(info) for info in ref.pages.pages())
    places = page.addresses()

    def in_the_page(memory: int) -> bool:
        return any(start <= memory < start + length for start, length in places)

    got = craton.get(ref)
    pd.testing.assert_frame_equal(got, frame)
    for name in got:
        array = got[name].array
        for inner in ("_codes", "_data", "_ndarray"):
            array = getattr(array, inner, array)
        if hasattr(array, "_pa_array"):
            memory = [buffer.address for chunk in array._pa_array.chunks for buffer in chunk.buffers() if buffer]
        else:
            memory = [np.asarray(array).__array_interface__["data"][0]]
        assert all(map(in_the_page, memory)), name


def test_one_column_of_a_pandas_frame(store: Store) -> None:
    rows = 200_000
    frame = pd.DataFrame(
        {"i": np.arange(rows), "s": [f"text {i}" for i in range(rows)]}, index=pd.Index(np.arange(rows) * 2, name="key")
    )
    ref = craton.put(pa.Table.from_pandas(frame), store=store)
    before = store.counters()
    part = craton.get(ref, columns=["s"])
    assert store.counters()["hits"] - before["hits"] == 2  # the header's page and the column's
    assert part["s"].to_pylist()[:2] == ["text 0", "text 1"]
    pd.testing.assert_frame_equal(craton.get(ref).to_pandas(), frame)
    pages = store.create_set("frame")
    pages.append(frame)
    assert pa.table(pages.pin(0).batch([1])).column_names == ["s"]
    assert pages.to_arrow([0])["i"].to_numpy().tolist() == frame["i"].tolist()
    pd.testing.assert_frame_equal(pages.to_arrow().to_pandas(), frame)


@pytest.mark.parametrize("kind", ["table", "batch", "polars"])
def test_one_column_of_a_table(store: Store, kind: str) -> None:
    table = pa.table({"a": np.arange(500_000), "b": np.arange(500_000.0), "small": np.arange(500_000, dtype="i1")})
    obj = {"table": table, "batch": table.to_batches()[0], "polars": pl.DataFrame(table)}[kind]
    ref = craton.put(obj, store=store)
    whole = craton.get(ref)
    assert type(whole) is type(obj)
    assert whole.equals(obj)
    before = store.counters()
    part = craton.get(ref, columns=["b"])
    after = store.counters()
    assert after["hits"] - before["hits"] == 2  # the header's page and the column's
    assert pa.table(part).column_names == ["b"]
    with pytest.raises(KeyError, match="no column 'z'"):
        craton.get(ref, columns=["z"])


@pytest.mark.parametrize("kind", ["table", "batch", "polars"])
def test_one_column_of_a_small_table(store: Store, kind: str) -> None:
    table = pa.table({"a": [1, 2], "b": [0.5, None]})
    obj = {"table": table, "batch": table.to_batches()[0], "polars": pl.DataFrame(table)}[kind]
    ref = craton.put(obj, store=store)
    part = craton.get(ref, columns=["b"])
    assert type(part) is type(obj)
    assert pa.table(part).to_pydict() == {"b": [0.5, None]}
    with pytest.raises(KeyError, match="no column 'z'"):
        craton.get(ref, columns=["z"])


def test_a_dropped_object_cannot_be_read(store: Store) -> None:
    ref = craton.put(1, store=store)
    ref.drop()
    ref.drop()
    with pytest.raises(KeyError, match=r"<Ref .*dropped"):
        craton.get(ref)
    with pytest.raises(TypeError, match=r"craton\.put"):
        craton.get(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="columns"):
        craton.get(craton.put({}, store=store), columns=["a"])


def test_an_object_is_dropped_with_its_last_reference(store: Store) -> None:
    refs = [craton.put(np.zeros(1000), store=store) for _ in range(1000)]
    assert store.counters()["sets"] == 1000
    refs.clear()
    gc.collect()
    assert store.counters()["sets"] == 0


def test_a_pickled_reference_works_in_another_process(store: Store) -> None:
    ref = craton.put({"n": np.arange(1_000_000)}, store=store)
    sent = pickle.dumps(ref)
    assert pickle.loads(sent) == pickle.loads(sent)
    assert len({pickle.loads(sent), pickle.loads(sent)}) == 1
    before = store.counters()["copied"]
    code = """
        import pickle, sys, craton
        ref = pickle.loads(bytes.fromhex(sys.argv[1]))
        got = craton.get(ref)["n"]
        print(int(got.sum()), got.flags.writeable)
    """
    assert child(code, sent.hex()) == f"{1_000_000 * 999_999 // 2} False"
    assert store.counters()["copied"] == before
    ref.drop()
    code = """
        import pickle, sys, craton
        try:
            craton.get(pickle.loads(bytes.fromhex(sys.argv[1])))
        except KeyError:
            print("gone")
    """
    assert child(code, sent.hex()) == "gone"


def test_a_child_puts_and_the_parent_gets(store: Store) -> None:
    address = store.serve()
    code = """
        import sys, numpy as np, craton
        craton.connect(sys.argv[1])
        craton.cache("from the child", {"n": np.arange(100_000)})
    """
    child(code, address)
    got = store.get_set("object:from the child")
    assert len(got) == 1
    eventually(lambda: store.counters()["clients"] == 0)
    with Store.connect(address):
        assert store.counters()["clients"] == 1


def test_connecting_without_a_server_fails() -> None:
    with pytest.raises(ConnectionError, match="nobody-serves-here"):
        Store.connect("/tmp/nobody-serves-here.sock")


def test_named_objects() -> None:
    craton.cache("primes", [2, 3, 5])
    assert craton.cache("primes") == [2, 3, 5]
    craton.cache("primes", [7])
    assert craton.cache("primes") == [7]
    with pytest.raises(KeyError, match="composites"):
        craton.cache("composites")
    assert craton.cache("primes", None) is None  # a value like any other
    assert craton.cache("primes") is None
    craton.default_store().get_set("object:primes").drop()
    with pytest.raises(KeyError, match="primes"):
        craton.cache("primes")


def test_an_incomplete_named_table_cannot_be_read() -> None:
    home = craton.default_store()
    table = pl.DataFrame({"a": np.arange(500_000), "b": np.arange(500_000.0)})
    craton.cache("whole", table)
    whole, half = home.get_set("object:whole"), home.create_set("object:half")
    with pytest.raises(KeyError, match="half"):
        craton.cache("half")
    for info in whole.pages()[:2]:  # the header, and one of the two columns
        page = whole.pin(info)
        if info.number == 0:
            half._native.write_object(half.number, [bytes(page.meta())], [], statistics=info.statistics)
        else:
            half._native.write(half.number, page.batch(), statistics=info.statistics)
    with pytest.raises(KeyError, match="still being written"):
        craton.cache("half")
    assert craton.cache("half", table).equals(table)
    whole.drop()
    home.get_set("object:half").drop()


def test_closing_a_connected_store_closes_the_connection(store: Store) -> None:
    address = store.serve()
    made = store.create_set("numbers")
    made.append({"n": np.arange(100_000)})
    clients = store.counters()["clients"]
    other = Store.connect(address)
    assert (store.counters()["clients"], other.limit) == (clients + 1, store.limit)
    other.close()
    eventually(lambda: store.counters()["clients"] == clients)
    for call in (lambda: other.get_set("numbers"), other.describe, lambda: other.create_set("more")):
        with pytest.raises(ConnectionError, match="closed its connection"):
            call()
    other.close()
    assert store.get_set("numbers").to_arrow().num_rows == 100_000


def test_views_outlive_the_connection_that_read_them(store: Store) -> None:
    address = store.serve()
    store.create_set("numbers").append({"n": np.arange(1_000_000)})
    clients = store.counters()["clients"]
    other = Store.connect(address)
    table = other.get_set("numbers").to_arrow()
    other.close()
    with pytest.raises(ConnectionError):
        other.get_set("numbers")
    for turn in range(10):  # more than the store's memory: pages with views must not be evicted
        store.create_set(f"{turn}").append({"n": np.full(1_000_000, turn)})
    assert table["n"].to_numpy().sum() == 999_999 * 500_000
    assert store.counters()["clients"] == clients + 1
    del table
    gc.collect()
    eventually(lambda: store.counters()["clients"] == clients)


@pytest.mark.parametrize("kind", ["arrow", "polars"])
def test_a_table_of_many_pages_through_a_connection(store: Store, kind: str) -> None:
    frame = pl.DataFrame({"a": np.arange(1_000_000), "s": [f"{n}" for n in range(1_000_000)], "b": [1.0] * 1_000_000})
    ref = craton.put(frame.to_arrow() if kind == "arrow" else frame, store=store)
    store.serve()
    other = Store.connect(store.address or "")
    ref._store, ref._address = None, store.address
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("craton.store.objects.store_at", lambda _address: other)
        found = craton.get(ref)
        assert pl.DataFrame(found).equals(frame)
        assert craton.get(ref, columns=["b", "a"]).shape == (1_000_000, 2)
    first = next(row for row in store._native.describe() if row["set"] == ref.number)
    assert first["pins"] > 0
    del found
    gc.collect()
    other.close()


def test_repr(store: Store) -> None:
    ref = craton.put(1, store=store)
    assert isinstance(ref, Ref)
    assert repr(ref).startswith("<Ref ")


@pytest.mark.parametrize("size", [0, 11, 12, 13, 70_000, 1 << 20])
def test_metadata_in_pieces(store: Store, size: int) -> None:
    obj = [bytes(range(256)) * (size // 256) + b"x" * (size % 256), "tail", [str(i) for i in range(20_000)]]
    ref = craton.put(obj, store=store)
    assert craton.get(ref) == obj
    assert len(ref.pages) == 1


def test_pieces_beside_views_of_the_store(store: Store) -> None:
    first = craton.get(craton.put(np.arange(200_000), store=store))
    before = store.counters()["copied"]
    ref = craton.put([b"z" * 100_000, first, np.arange(3)], store=store)
    assert 100_000 < store.counters()["copied"] - before < 200_000
    text, shared, own = craton.get(ref)
    assert text == b"z" * 100_000
    assert np.shares_memory(shared, first)
    np.testing.assert_array_equal(own, [0, 1, 2])


def test_memory_of_pages_that_were_dropped_is_copied(store: Store) -> None:
    ref = craton.put(np.arange(200_000), store=store)
    view = craton.get(ref)
    ref.drop()
    again = craton.get(craton.put([b"z" * 100_000, view], store=store))[1]
    np.testing.assert_array_equal(again, np.arange(200_000))


@pytest.mark.parametrize("length", [(4 << 20) - 1, (4 << 20) + 65, (9 << 20) + 4097 * 8 + 3])
def test_large_buffers_are_copied_whole(store: Store, length: int) -> None:
    numbers = np.random.default_rng(length).integers(0, 256, length, np.uint8)
    got = craton.get(craton.put([numbers[1:], numbers], store=store))
    np.testing.assert_array_equal(got[0], numbers[1:])
    np.testing.assert_array_equal(got[1], numbers)


def test_a_set_is_dropped_with_its_last_use(store: Store) -> None:
    native = store._native
    use = native.put([craton.serialize.encode([1]).meta], [])  # type: ignore[attr-defined]
    number = use.number
    ref = Ref(store, use)
    pages = ref.pages
    del use, ref
    assert len(pages) == 1
    del pages
    gc.collect()
    with pytest.raises(KeyError):
        native.pages(number)


def test_an_object_with_non_contiguous_buffers_cannot_be_put(store: Store) -> None:
    sets = store.counters()["sets"]
    with pytest.raises(BufferError, match="not contiguous"):
        store._native.put([np.zeros(8, "u1")[::2]], [])
    with pytest.raises(MemoryError):
        craton.put(np.zeros(300 << 20, np.uint8), store=store)
    assert store.counters()["sets"] == sets
    ref = Ref(store, store._native.put([b"not an object's meta"], []))
    with pytest.raises(ValueError, match="COBM"):
        craton.get(ref)
