"""Requests to an object store fail, each in turn: no committed row is lost, and no other is seen."""

from __future__ import annotations

import contextlib
import functools
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import fsspec
import pandas
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import craton
from craton.store import SetConflict, object_store
from craton.store.durable import DurableSet
from craton.store.object_folder import UnknownOutcome
from craton.store.object_store import ObjectStore
from craton.store.recovery import rebuild
from tests.unit.store.keyed_tables import keyed_table

REQUESTS = ("find", "ls", "cat_file", "pipe_file", "put_file", "info", "rm_file")


class FailingFiles(MemoryFileSystem):
    """Files in memory, of which one request fails, or all from one on: before the store does it, or after."""

    count: ClassVar[int] = 0
    first: ClassVar[int] = 0
    last: ClassVar[int] = 0
    after: ClassVar[bool] = False
    names: ClassVar[list[str]] = []
    lock: ClassVar[threading.RLock] = threading.RLock()
    depth: ClassVar[int] = 0

    @classmethod
    def fail(cls, first: int, last: int, after: bool) -> None:
        """Let some requests fail, by their numbers from 1."""
        cls.count, cls.first, cls.last, cls.after, cls.names = 0, first, last, after, []

    @classmethod
    def work(cls) -> None:
        """Let no request fail."""
        cls.fail(0, 0, False)


def _counted(name: str) -> Callable[..., Any]:
    request = getattr(MemoryFileSystem, name)

    @functools.wraps(request)
    def counted(self: FailingFiles, *args: Any, **named: Any) -> Any:
        cls = FailingFiles
        with cls.lock:  # a request may call another one
            if cls.depth:
                return request(self, *args, **named)
            cls.depth += 1
            try:
                cls.count += 1
                cls.names.append(name)
                fails = cls.first <= cls.count <= cls.last
                if fails and not cls.after:
                    raise ConnectionResetError(f"request {cls.count}, {name}")
                found = request(self, *args, **named)
                if fails:
                    raise TimeoutError(f"the answer to request {cls.count}, {name}, was lost")
                return found
            finally:
                cls.depth -= 1

    return counted


for _name in REQUESTS:
    setattr(FailingFiles, _name, _counted(_name))


@pytest.fixture(autouse=True)
def place(tmp_path: Path) -> Iterator[str]:
    url = f"memory://failing-{uuid.uuid4().hex}"
    FailingFiles.work()
    fsspec.register_implementation("memory", FailingFiles, clobber=True)
    with craton.option_context(data=url, data_cache=tmp_path / "cache", small_rows=0):
        yield url
    fsspec.register_implementation("memory", MemoryFileSystem, clobber=True)
    MemoryFileSystem.store.clear()


def rows(seed: int, count: int = 40) -> pandas.DataFrame:
    return keyed_table(count, seed, 9, 9)


#: What programs do to a set with versions 1 and 2, and what the newest version is afterwards if it is done.
ACTIONS: dict[str, tuple[Callable[[], Any], Callable[[], pandas.DataFrame | None]]] = {
    "append": (
        lambda: craton.save("set", rows(3), mode="append"),
        lambda: pandas.concat([rows(1), rows(2), rows(3)], ignore_index=True),
    ),
    "overwrite": (
        lambda: craton.save("set", rows(3), mode="overwrite", partition_by="k", partitions=2, replicate_by=["p"]),
        lambda: rows(3),
    ),
    "expire": (lambda: DurableSet("set").expire([1]), lambda: None),
    "repair": (lambda: DurableSet("set").repair(age=0), lambda: None),
    "vacuum": (lambda: (DurableSet("set").expire([1]), DurableSet("set").repair(age=0)), lambda: None),
    "read": (lambda: read(), lambda: None),
}


def read(version: int | None = None) -> pandas.DataFrame:
    return pandas.DataFrame(craton.read_set("set", version=version)).copy()


def begin(url: str) -> None:
    """A set with two versions, data that no version has, and the mark of an expired version."""
    FailingFiles.work()
    MemoryFileSystem.store.clear()
    craton.save("set", rows(1))
    craton.save("set", rows(2), mode="append")
    fsspec.filesystem("memory").pipe_file(f"{url}/default/set/data/gone-1.arrow", b"rows of a killed writer")


def check(done: bool | None, expected: pandas.DataFrame | None) -> None:
    """Every version is whole. None: it is not known whether the action was done."""
    FailingFiles.work()
    durable = DurableSet("set")
    before = pandas.concat([rows(1), rows(2)], ignore_index=True)
    versions = durable.versions()
    assert 2 in versions
    for number in versions:
        assert durable.verify(number) == {}
    pandas.testing.assert_frame_equal(read(2), before)
    if 1 in versions:
        pandas.testing.assert_frame_equal(read(1), rows(1))
    if expected is not None:
        assert (3 in versions) in ({True, False} if done is None else {done})
        pandas.testing.assert_frame_equal(read(), expected if 3 in versions else before)
    durable.repair(age=0)
    named = {file["name"] for number in durable.versions() for file in durable.version(number).files}
    found = MemoryFileSystem().find(f"{craton.options.data}/default/set/data".removeprefix("memory:/"))
    assert {path.rpartition("/")[2] for path in found} == named
    pandas.testing.assert_frame_equal(read(2), before)
    assert craton.save("set", rows(4), mode="append") == durable.versions()[-1]


@pytest.mark.parametrize("lasting", [False, True], ids=["one request", "all from one on"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("action", ACTIONS)
def test_every_request_fails_in_turn(place: str, tmp_path: Path, action: str, after: bool, lasting: bool) -> None:
    act, outcome = ACTIONS[action]
    said: list[str] = []
    for number in range(1, 200):
        begin(place)
        for path in (tmp_path / "cache").glob("*"):
            path.unlink()
        object_store._tested.clear()
        FailingFiles.fail(number, 10**9 if lasting else number, after)
        done: bool | None = False
        try:
            act()
            done = True
        except UnknownOutcome:
            done = None
        except OSError as error:
            said.append(str(error))
        assert done is not None or lasting, "one failure leaves no doubt"
        sent = FailingFiles.count
        check(done, outcome())
        if sent < number:
            break
    else:
        pytest.fail("the action sends more requests in each attempt")
    assert said
    assert all("memory://" in text for text in said)
    if action in ("append", "overwrite"):
        assert done


@pytest.mark.parametrize("lasting", [False, True], ids=["one request", "all from one on"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_new_set(place: str, after: bool, lasting: bool) -> None:
    for number in range(1, 100):
        MemoryFileSystem.store.clear()
        object_store._tested.clear()
        FailingFiles.fail(number, 10**9 if lasting else number, after)
        done: bool | None = False
        try:
            craton.save("set", rows(1))
            done = True
        except UnknownOutcome:
            done = None
        except OSError:
            pass
        sent = FailingFiles.count
        FailingFiles.work()
        durable = DurableSet("set")
        assert bool(durable.versions()) in ({True, False} if done is None else {done})
        if durable.versions():
            pandas.testing.assert_frame_equal(read(), rows(1))
        durable.repair(age=0)
        assert len(MemoryFileSystem.store) == 2 * len(durable.versions())
        if sent < number:
            return
    pytest.fail("it sends more requests in each attempt")


@pytest.mark.parametrize("lasting", [False, True], ids=["one request", "all from one on"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_dropping(place: str, after: bool, lasting: bool) -> None:
    for number in range(1, 100):
        begin(place)
        FailingFiles.fail(number, 10**9 if lasting else number, after)
        done: bool | None = False
        try:
            craton.drop_set("set")
            done = True
        except UnknownOutcome:
            done = None
        except OSError:
            pass
        sent = FailingFiles.count
        FailingFiles.work()
        durable = DurableSet("set")
        assert (not durable.versions()) in ({True, False} if done is None else {done})
        if durable.versions():  # the set is whole
            pandas.testing.assert_frame_equal(read(), pandas.concat([rows(1), rows(2)], ignore_index=True))
            assert [durable.verify(version) for version in durable.versions()] == [{}, {}]
        else:
            with pytest.raises(FileNotFoundError):
                read()
            durable.repair(age=0)
            assert not MemoryFileSystem.store
            assert craton.save("set", rows(5)) == 1
        if sent < number:
            return
    pytest.fail("it sends more requests in each attempt")


@pytest.mark.parametrize("lasting", [False, True], ids=["one request", "all from one on"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_rebuilding(place: str, tmp_path: Path, after: bool, lasting: bool) -> None:
    craton.save("set", rows(1), partition_by="k", partitions=2, replicate_by=["p"])
    durable = DurableSet("set")
    version = durable.version()
    first = MemoryFileSystem._strip_protocol(durable.path(version.files[0]))
    for number in range(1, 100):
        MemoryFileSystem.store.pop(first, None)
        for path in (tmp_path / "cache").glob("*"):
            path.unlink()
        craton.clear_memory()
        FailingFiles.fail(number, 10**9 if lasting else number, after)
        done = False
        with contextlib.suppress(OSError):
            rebuild(durable, version, durable.verify(1))
            done = True
        sent = FailingFiles.count
        FailingFiles.work()
        pandas.testing.assert_frame_equal(read(), rows(1))  # from the other replica, or from the file that was rebuilt
        if done:
            assert durable.verify(1) == {}
        if sent < number:
            return
    pytest.fail("it sends more requests in each attempt")


def test_the_answer_to_the_conditional_write_is_lost_and_another_writer_goes_on(place: str) -> None:
    """The writer finds its own manifest, and another one that is made from it."""
    begin(place)
    create = ObjectStore.create

    def lost(self: ObjectStore, key: str, content: bytes) -> None:
        create(self, key, content)
        if key.endswith(f"{3:020}"):
            craton.save("set", rows(4), mode="append")
            raise ConnectionResetError("the answer was lost")

    with mock.patch.object(ObjectStore, "create", lost):
        assert craton.save("set", rows(3), mode="append") == 3
    expected = pandas.concat([rows(1), rows(2), rows(3), rows(4)], ignore_index=True)
    pandas.testing.assert_frame_equal(read(), expected)
    assert DurableSet("set").versions() == [1, 2, 3, 4]


@pytest.mark.parametrize("answered", [True, False])
def test_another_writer_is_faster(place: str, answered: bool) -> None:
    begin(place)
    create, sent = ObjectStore.create, []

    def slow(self: ObjectStore, key: str, content: bytes) -> None:
        if key.endswith(f"{3:020}") and not sent:
            sent.append(key)
            craton.save("set", rows(4), mode="append")
            try:
                create(self, key, content)
            except OSError:
                if not answered:
                    raise ConnectionResetError("the answer was lost") from None
                raise
        else:
            create(self, key, content)

    with mock.patch.object(ObjectStore, "create", slow), pytest.raises(SetConflict, match="version 3"):
        craton.save("set", rows(3), mode="append")
    pandas.testing.assert_frame_equal(read(), pandas.concat([rows(1), rows(2), rows(4)], ignore_index=True))
    DurableSet("set").repair(age=0)
    assert len(MemoryFileSystem.store) == 6


def test_an_object_that_the_store_has_cut_off_is_not_published(place: str) -> None:
    begin(place)
    put = FailingFiles.put_file

    def cut(self: Any, local: str, path: str, **named: Any) -> None:
        put(self, local, path, **named)
        self.pipe_file(path, Path(local).read_bytes()[:-1])

    FailingFiles.put_file = cut  # type: ignore[method-assign]
    try:
        with pytest.raises(OSError, match="differs from the file that was uploaded"):
            craton.save("set", rows(3), mode="append")
    finally:
        FailingFiles.put_file = put  # type: ignore[method-assign]
    check(False, rows(3))


def test_a_file_that_is_removed_before_it_is_published(place: str) -> None:
    """Another process repairs the set and assumes that no writer is alive."""
    begin(place)
    put = FailingFiles.put_file

    def removed(self: Any, local: str, path: str, **named: Any) -> None:
        put(self, local, path, **named)
        DurableSet("set").repair(age=0)

    FailingFiles.put_file = removed  # type: ignore[method-assign]
    try:
        with pytest.raises(OSError, match="is missing"):
            craton.save("set", rows(3), mode="append")
    finally:
        FailingFiles.put_file = put  # type: ignore[method-assign]
    check(False, rows(3))
