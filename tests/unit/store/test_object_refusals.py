"""Durable sets in object stores: damaged objects, places that are refused, and options."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pandas
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import craton
from craton.store import CorruptSet, object_folder, object_store
from craton.store.cli import main
from craton.store.durable import DurableSet, remove_dropped, restore
from tests.unit.store import test_durable_sets
from tests.unit.store.keyed_tables import keyed_table
from tests.unit.store.object_places import NOWHERE, change, files_of, objects
from tests.unit.store.test_partitioned_sets import equal

table, as_pandas = test_durable_sets.table, test_durable_sets.as_pandas


# ---- damage ----


@pytest.mark.parametrize("how", ["missing", "short", "changed"])
def test_damaged_files(place: str, how: str, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    craton.save("plain", table(100))
    rows = keyed_table(600, 0, 50, 70)
    craton.save("rows", rows, partition_by="k", replicate_by=["p"], partitions=3)
    for name in ("plain", "rows"):
        durable = DurableSet(name)
        file = durable.version().files[0]
        if how == "missing":
            files_of(place).rm_file(durable.path(file))
        elif how == "short":
            change(durable.path(file), lambda content: content[:-1])
        else:
            change(durable.path(file), lambda content: content[:500] + bytes([content[500] ^ 1]) + content[501:])
        said = {"missing": "it is missing", "short": "bytes, and should have", "changed": "its checksum differs"}[how]
        ((damaged, why),) = durable.verify(1).items()
        assert damaged == file["name"]
        assert said in why
    with pytest.raises(CorruptSet, match="plain"):
        craton.read_set("plain")["i"].sum()
    if how != "changed":
        equal(craton.read_set("rows").groupby("k")["x"].sum(), rows.groupby("k")["x"].sum())  # from the other replica
    assert main(["verify", *NOWHERE]) == 1
    assert main(["repair", "rows"]) == 0
    assert "rebuilt" in capsys.readouterr().out
    assert DurableSet("rows").verify(1) == {}
    equal(craton.read_set("rows").groupby("k")["x"].sum(), rows.groupby("k")["x"].sum())
    assert main(["repair", "plain"]) == 1


def test_files_of_all_replicas_are_lost(place: str) -> None:
    rows = keyed_table(600, 0, 50, 70)
    craton.save("rows", rows, partition_by="k", replicate_by=["p"], partitions=3)
    durable = DurableSet("rows")
    for number in (0, 1):
        files_of(place).rm_file(durable.path(durable.version().files_of(number)[number]))
    with pytest.raises(CorruptSet, match="no replica is complete"):
        craton.read_set("rows")
    durable = DurableSet("rows2")
    craton.save("rows2", rows, partition_by="k", replicate_by=["p"], partitions=3)
    craton.save("rows2", rows, mode="append")
    for number in (0, 1):  # a file of the first rows, and one of those that were appended
        files_of(place).rm_file(durable.path(durable.version().files_of(number)[-number]))
    equal(craton.read_set("rows2"), pandas.concat([rows, rows], ignore_index=True))


def test_damaged_manifests(place: str) -> None:
    craton.save("set", table(100))
    craton.save("set", table(50), mode="append")
    durable = DurableSet("set")
    url = f"{place}/default/set/versions/{2:020}"
    files = files_of(place)
    good = files.cat_file(url)
    other = files.cat_file(f"{place}/default/set/versions/{1:020}")
    for bad, error in (
        (good[:-1], CorruptSet),
        (good[:-9] + b"x" + good[-8:], CorruptSet),
        (b"something else that is not a manifest", CorruptSet),
        (other, CorruptSet),
        (object_folder._EXPIRED, CorruptSet),
        (good.replace(b"craton-set 1", b"craton-set 9"), ValueError),
    ):
        files.pipe_file(url, bad)
        with pytest.raises(error, match=f"{2:020}"):
            craton.read_set("set")
        with pytest.raises(error):
            craton.save("set", table(3), mode="append")
        with pytest.raises(error):
            durable.repair(age=0)
    files.pipe_file(url, good)
    assert len(craton.read_set("set")) == 150
    assert len(objects(f"{place}/default/set/data")) == 2


def test_manifests_are_those_of_local_folders(memory: str, tmp_path: Path) -> None:
    """A set can be copied from a folder to an object store, and back."""
    rows = table(50)
    craton.save("set", rows)
    craton.save("set", rows, mode="append")
    files = files_of(memory)
    for name in objects(f"{memory}/default/set"):
        path = tmp_path / "data/default/copied" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files.cat_file(f"{memory}/default/set/{name}"))
    with craton.option_context(data=tmp_path / "data"):
        assert len(craton.read_set("copied")) == 100
        assert craton.save("copied", rows, mode="append") == 3
        assert DurableSet("copied").verify(3) == {}
    for path in (tmp_path / "data/default/copied").rglob("*"):
        if path.is_file():
            files.pipe_file(f"{memory}/back/set/{path.parent.name}/{path.name}", path.read_bytes())
    expected = pandas.concat([rows] * 3, ignore_index=True)
    pandas.testing.assert_frame_equal(as_pandas(craton.read_set("back.set")), expected)


# ---- refusals ----


def refused(error: type[Exception], why: str) -> None:
    """Nothing works at the place of the options, and the error says why."""
    for use in (
        lambda: craton.save("set", table(3)),
        lambda: craton.read_set("set"),
        lambda: craton.catalog(),
        lambda: craton.drop_set("set"),
        lambda: DurableSet("set").repair(),
    ):
        with pytest.raises(error, match=why):
            use()


def test_places_that_are_refused(tmp_path: Path, cache: Path) -> None:
    for url in ("http://127.0.0.1:9/sets", "zip://sets::memory://a.zip", "ftp://sets", "nothing://sets"):
        with craton.option_context(data=url):
            refused(ValueError, "no conditional write")
    assert not cache.exists()
    with craton.option_context(data="memory://sets"):
        craton.save("set", table(3))
        for losses in (1, -1):
            with (
                craton.option_context(data_places=[tmp_path / "a", tmp_path / "b"]),
                pytest.raises(ValueError, match="object store"),
            ):
                craton.save("set", table(3), mode="overwrite", losses=losses, partition_by="i")
        with pytest.raises(ValueError, match="object store"):
            restore([str(tmp_path)])
        with pytest.raises(ValueError, match="object store"):
            DurableSet("set").move_place("/a", "/b")
        assert DurableSet("set").versions() == [1]
        craton.drop_set("set")
        remove_dropped(age=0)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(("scheme", "library"), [("s3", "s3fs"), ("gs", "gcsfs"), ("abfs", "adlfs")])
def test_libraries_that_are_missing(scheme: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)  # its import fails
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, scheme, raising=False)
    with craton.option_context(data=f"{scheme}://bucket/sets"):
        refused(ImportError, library)


def test_a_server_that_does_not_answer(bucket: dict[str, Any], cache: Path) -> None:
    wrong = {**bucket, "client_kwargs": {"endpoint_url": "http://127.0.0.1:9"}}
    wrong["config_kwargs"] = {"retries": {"max_attempts": 1}}
    with craton.option_context(data="s3://bucket/sets", data_options=wrong):
        refused(OSError, "s3://bucket/sets/")
    with craton.option_context(data="s3://nowhere/sets", data_options=bucket):
        with pytest.raises(OSError, match="s3://nowhere/sets/default/set"):
            craton.save("set", table(3))
        assert craton.catalog().empty
    with craton.option_context(data="s3://bucket/sets", data_options={**bucket, "nonsense": 5}):
        refused((TypeError, ValueError, OSError), ".")  # type: ignore[arg-type]
    assert not cache.exists()


def test_a_store_that_ignores_the_condition(memory: str) -> None:
    def replace(self: Any, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        self.open(path, mode="wb", data=value)

    craton.save("set", table(3))
    with (
        mock.patch.object(object_store, "_tested", set()),
        mock.patch.object(MemoryFileSystem, "pipe_file", replace),
        pytest.raises(OSError, match="ignores the condition"),
    ):
        craton.save("set", table(3), mode="append")
    assert DurableSet("set").versions() == [1]
    assert len(objects(memory)) == 2


def test_options(tmp_path: Path) -> None:
    for given, expected in (
        ("S3://bucket/a/", "s3://bucket/a"),
        ("memory://x", "memory://x"),
        (f"file://{tmp_path}/a%20b", f"{tmp_path}/a b"),
    ):
        with craton.option_context(data=given):
            assert craton.options.data == expected
    with craton.option_context(data=f"file://{tmp_path}/local"):
        craton.save("set", table(3))
        assert (tmp_path / "local/default/set/versions").is_dir()
    with craton.option_context(data_options={"key": "hidden"}):
        assert "hidden" not in repr(craton.options)
    with craton.option_context(data_options='{"anon": true}', data_cache_limit="1GiB"):
        assert craton.options.data_options == {"anon": True}
        assert craton.options.data_cache_limit == 1 << 30
    for wrong in ("simplecache::memory://sets", "s3:///", "://x"):
        with pytest.raises(ValueError, match="option data is the path of a folder, or a URL"):
            craton.options.data = wrong
    for wrong in ("nonsense", "[1]", 5, {1: 2}, None):
        with pytest.raises(ValueError, match="option data_options is a mapping"):
            craton.options.data_options = wrong  # type: ignore[assignment]
    for wrong in ("", 5, "s3://bucket"):
        with pytest.raises(ValueError, match="option data_cache is the path of a folder"):
            craton.options.data_cache = wrong  # type: ignore[assignment]
    code = "from craton import options as o; print(o.data, o.data_options, o.data_cache)"
    given = {"CRATON_DATA": "s3://b/c", "CRATON_DATA_OPTIONS": '{"a": "b"}', "XDG_CACHE_HOME": "/caches"}
    run = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **given}, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "s3://b/c {'a': 'b'} /caches/craton/objects"


def test_what_stores_say_of_objects() -> None:
    moment = pandas.Timestamp("2024-05-01", tz="UTC")
    checksum = base64.b64encode((123456).to_bytes(4, "big")).decode()
    for info in (
        {"LastModified": moment.to_pydatetime()},
        {"updated": "2024-05-01T00:00:00.000Z", "crc32c": checksum},
        {"last_modified": moment.to_pydatetime()},
        {"created": moment.timestamp()},
    ):
        found = object_store.StoredObject.of({"size": 5, **info})
        assert found == object_store.StoredObject(5, moment.timestamp(), 123456 if "crc32c" in info else None)
    assert object_store.StoredObject.of({"size": None}) == object_store.StoredObject(0)
    assert object_store.StoredObject.of({"size": 1, "mtime": 5}).time == 5
