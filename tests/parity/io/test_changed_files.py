"""Files and remote objects that change between a call and its evaluation: the old rows, the new rows, or SourceChanged."""

import os
import threading

import fsspec
import numpy as np
import pandas as pd
import pytest

import craton
import craton.pandas as cp
from craton.engine.tiled import TiledEngine, using
from craton.errors import SourceChanged
from craton.lower import file_versions
from craton.lower.tiled import Settings
from craton.schedule.inline import InlineRunner

ROWS = 1_000


@pytest.fixture(autouse=True)
def planned():
    with craton.option_context(small_rows=0):
        craton.clear_memory()
        yield


def table(value):
    return pd.DataFrame({"a": np.full(ROWS, value), "b": np.arange(ROWS)})


FORMATS = {
    "parquet": (lambda frame, path: frame.to_parquet(path, compression=None), lambda path: cp.read_parquet(path)),
    "feather": (
        lambda frame, path: frame.to_feather(path, compression="uncompressed"),
        lambda path: cp.read_feather(path),
    ),
    "csv": (lambda frame, path: frame.to_csv(path, index=False), lambda path: cp.read_csv(path)),
    "json": (
        lambda frame, path: frame.to_json(path, orient="records", lines=True),
        lambda path: cp.read_json(path, lines=True),
    ),
}


@pytest.fixture(params=FORMATS)
def kind(request):
    return request.param


@pytest.fixture
def path(tmp_path, kind):
    found = tmp_path / f"table.{kind}"
    FORMATS[kind][0](table(1), found)
    return found


def content(kind, value, folder):
    """The bytes of a file with other values and the same size."""
    other = folder / "other"
    FORMATS[kind][0](table(value), other)
    found = other.read_bytes()
    other.unlink()
    return found


def write_over(path, data, *, keep_times=True):
    """Overwrite a file in place: inode, size and, by default, modification time stay the same."""
    before = os.stat(path)
    assert len(data) == before.st_size
    with open(path, "r+b") as file:
        file.write(data)
    if keep_times:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_file_of_the_same_size_and_time_is_another_one(path, kind, tmp_path):
    read = FORMATS[kind][1]
    frame = read(path)
    assert frame["a"].sum() == ROWS
    write_over(path, content(kind, 2, tmp_path))
    assert read(path)["a"].sum() == 2 * ROWS
    assert read(path)["b"].max() == ROWS - 1
    with pytest.raises(SourceChanged, match="changed after it was read"):
        frame["b"].max()
    assert frame["a"].sum() == ROWS  # the result from before the change is cached


def test_writes_within_one_tick_of_the_clock(path, kind, tmp_path):
    read = FORMATS[kind][1]
    data = [content(kind, value, tmp_path) for value in range(2, 8)]
    for value, one in enumerate(data, 2):
        write_over(path, one)
        assert read(path)["a"].max() == value


def test_a_file_that_is_replaced_or_removed_is_still_there_for_its_frame(path, kind, tmp_path):
    read = FORMATS[kind][1]
    first = read(path)
    other = tmp_path / "new"
    FORMATS[kind][0](table(2), other)
    os.replace(other, path)
    second = read(path)
    assert (first["a"].sum(), second["a"].sum()) == (ROWS, 2 * ROWS)
    path.unlink()
    assert (first["b"].sum(), second["b"].sum()) == (table(1)["b"].sum(),) * 2


def appended(kind, path):
    """Append rows to a file with Craton."""
    if kind == "csv":
        cp.DataFrame(table(7)).to_csv(path, mode="a", header=False, index=False)
    else:
        cp.DataFrame(table(7)).to_json(path, mode="a", orient="records", lines=True)


@pytest.mark.parametrize("kind", ["csv", "json"], indirect=True)
def test_rows_that_are_appended_are_not_those_of_a_frame_that_was_read_before(path, kind):
    read = FORMATS[kind][1]
    first = read(path)
    large = first[first["b"] > 10]
    appended(kind, path)
    second = read(path)
    appended(kind, path)
    assert (len(large), large["a"].sum()) == (ROWS - 11,) * 2
    assert second["a"].sum() == 8 * ROWS
    assert read(path)["a"].sum() == 15 * ROWS
    path.unlink()
    assert first["b"].sum() == table(1)["b"].sum()
    assert second["b"].sum() == 2 * table(1)["b"].sum()


@pytest.mark.parametrize("kind", ["csv"], indirect=True)
def test_a_frame_is_appended_to_its_own_file(path, kind):
    frame = cp.read_csv(path)
    frame[frame["b"] < 3].to_csv(path, mode="a", header=False, index=False)
    assert len(frame) == ROWS
    assert cp.read_csv(path)["b"].tail(3).tolist() == [0, 1, 2]


@pytest.mark.parametrize("kind", ["csv"], indirect=True)
def test_a_file_of_two_names_is_written_in_place_and_kept(path, kind, tmp_path):
    os.link(path, tmp_path / "again.csv")
    first, second = cp.read_csv(path), cp.read_csv(tmp_path / "again.csv")
    cp.DataFrame(table(2)).to_csv(path, index=False)
    assert (first["a"].sum(), second["a"].sum()) == (ROWS, ROWS)
    assert cp.read_csv(tmp_path / "again.csv")["a"].sum() == 2 * ROWS


@pytest.mark.parametrize("kind", ["csv"], indirect=True)
def test_what_was_lost_before_is_not_kept(path, kind, tmp_path):
    frame = cp.read_csv(path)
    write_over(path, content(kind, 2, tmp_path))
    appended(kind, path)
    with pytest.raises(SourceChanged):
        frame["a"].sum()


@pytest.mark.parametrize("kind", ["csv"], indirect=True)
def test_large_files_are_not_copied(path, kind, monkeypatch):
    monkeypatch.setattr(file_versions, "MAX_COPIED", 100)
    frame = cp.read_csv(path)
    appended(kind, path)
    with pytest.raises(SourceChanged):
        frame["a"].sum()


def changing(monkeypatch, change):
    """Change a file while a plan runs: after the first check of the file, and before the kernel reads it."""
    from craton.engine import run

    real = run.run_all

    def late(*args, **named):
        change()
        return real(*args, **named)

    monkeypatch.setattr(run, "run_all", late)


def test_a_file_that_is_written_over_while_a_plan_runs(path, kind, tmp_path, monkeypatch):
    frame = FORMATS[kind][1](path)
    other = content(kind, 2, tmp_path)
    changing(monkeypatch, lambda: write_over(path, other))
    with pytest.raises(SourceChanged):
        frame["a"].sum()
    with pytest.raises(SourceChanged):
        frame["a"].sum()  # the failed run has cached no result


def test_a_file_that_is_replaced_while_a_plan_runs(path, kind, tmp_path, monkeypatch):
    frame = FORMATS[kind][1](path)
    other = tmp_path / "new"
    FORMATS[kind][0](table(2), other)
    changing(monkeypatch, lambda: other.exists() and os.replace(other, path))
    assert frame["a"].sum() == ROWS
    assert FORMATS[kind][1](path)["a"].sum() == 2 * ROWS


def test_a_file_that_is_truncated_while_a_plan_runs(path, kind, monkeypatch):
    frame = FORMATS[kind][1](path)
    changing(monkeypatch, lambda: path.write_bytes(b""))
    with pytest.raises(SourceChanged):
        frame["a"].sum()


def test_partitions_that_are_replaced_while_a_plan_runs(tmp_path, monkeypatch):
    """The names of partition folders contain column values, so the kernel opens these files by path."""
    frame = table(1).assign(k=["x", "y"] * (ROWS // 2))
    frame.to_parquet(tmp_path / "set", partition_cols=["k"])
    late = cp.read_parquet(tmp_path / "set")
    (first, *_) = sorted((tmp_path / "set").rglob("*.parquet"))
    (tmp_path / "new").write_bytes(first.read_bytes())
    changing(monkeypatch, lambda: (tmp_path / "new").exists() and os.replace(tmp_path / "new", first))
    with pytest.raises(SourceChanged):
        late["a"].sum()


@pytest.fixture
def tiles():
    """Run plans as tiles, which open files by path."""
    settings = Settings(tiles=3, broadcast_bytes=1, collapse_bytes=0)
    with using(TiledEngine(InlineRunner(), settings=settings, least_bytes=0)) as engine:
        yield engine


def test_a_file_that_is_replaced_or_removed_is_still_there_for_tiles(path, kind, tmp_path, tiles):
    test_a_file_that_is_replaced_or_removed_is_still_there_for_its_frame(path, kind, tmp_path)


@pytest.mark.parametrize("kind", ["csv", "json"], indirect=True)
def test_rows_that_are_appended_are_not_those_of_a_frame_for_tiles(path, kind, tiles):
    test_rows_that_are_appended_are_not_those_of_a_frame_that_was_read_before(path, kind)


def test_a_frame_is_written_over_its_own_file(path, kind, tiles):
    frame = FORMATS[kind][1](path)
    late = frame[frame["b"] >= 10]
    late["c"] = late["a"] + late["b"]
    FORMATS[kind][0](late.reset_index(drop=True), path)
    again = FORMATS[kind][1](path)
    assert (len(frame), len(late), len(again)) == (ROWS, ROWS - 10, ROWS - 10)
    assert frame["b"].sum() - late["b"].sum() == sum(range(10))
    assert late["c"].tolist() == again["c"].tolist()
    assert late.merge(frame, on="b")["a_y"].sum() == ROWS - 10


def test_a_file_that_is_replaced_while_tiles_run(path, kind, tmp_path, tiles, monkeypatch):
    frame = FORMATS[kind][1](path)
    other = tmp_path / "new"
    FORMATS[kind][0](table(2), other)
    real = tiles.collect

    def late(*args, **named):
        if other.exists():
            os.replace(other, path)
        return real(*args, **named)

    monkeypatch.setattr(TiledEngine, "collect", lambda _, *args, **named: late(*args, **named))
    assert frame["a"].sum() == ROWS
    assert FORMATS[kind][1](path)["a"].sum() == 2 * ROWS


def test_a_file_that_is_written_over_is_lost_to_tiles_too(path, kind, tmp_path, tiles):
    frame = FORMATS[kind][1](path)
    write_over(path, content(kind, 2, tmp_path))
    with pytest.raises(SourceChanged):
        frame["a"].sum()


def test_tiles_see_that_a_file_changed(tmp_path):
    from craton.lower.file_versions import check_files, settled_version

    paths = [os.fspath(tmp_path / name) for name in ("one", "other")]
    for path in paths:
        with open(path, "wb") as file:
            file.write(b"rows")
    versions = tuple(settled_version(path) for path in paths)
    check_files(paths, versions)
    check_files(["s3://bucket/key"], [("ETag", "x")])
    write_over(paths[1], b"swor")
    with pytest.raises(SourceChanged, match="other"):
        check_files(paths, versions)
    os.unlink(paths[0])
    with pytest.raises(SourceChanged, match="removed"):
        check_files(paths, versions)


def test_footers_are_known_by_the_state_of_the_file(tmp_path):
    path = tmp_path / "table.parquet"
    table(1).to_parquet(path, compression=None)
    assert len(cp.read_parquet(path)) == ROWS
    table(1).head(10).to_parquet(path, compression=None)
    assert len(cp.read_parquet(path)) == 10


# -- remote objects ---------------------------------------------------------------------------------------------------


def put(value, kind):
    filesystem = fsspec.filesystem("memory")
    with filesystem.open(f"/table.{kind}", "wb") as file:
        FORMATS[kind][0](table(value), file)


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_an_object_that_is_put_again(kind):
    put(1, kind)
    frame = FORMATS[kind][1](f"memory://table.{kind}")
    assert frame["a"].sum() == ROWS
    put(2, kind)
    assert FORMATS[kind][1](f"memory://table.{kind}")["a"].sum() == 2 * ROWS
    with pytest.raises(SourceChanged, match="changed after it was read"):
        frame["b"].max()
    assert frame["a"].sum() == ROWS
    fsspec.filesystem("memory").rm(f"/table.{kind}")
    with pytest.raises(SourceChanged, match="removed"):
        frame["b"].max()


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_an_object_that_is_put_again_while_a_plan_runs(kind, monkeypatch):
    put(1, kind)
    frame = FORMATS[kind][1](f"memory://table.{kind}")
    changing(monkeypatch, lambda: put(2, kind))
    with pytest.raises(SourceChanged):
        frame["a"].sum()


class Store:
    """A fake file system that reports the state of its files."""

    protocol = ("store",)

    def __init__(self, **info):
        self.told = info
        self.forgotten = 0

    def invalidate_cache(self, path=None):
        self.forgotten += 1

    def info(self, path):
        return {"name": path, "size": 10, "type": "file", **self.told}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"ETag": "a"}, {"ETag": "b"}),
        ({"etag": "a"}, {"etag": "b"}),
        ({"LastModified": 1}, {"LastModified": 2}),
        ({"ETag": "a", "LastModified": 1}, {"ETag": "a", "LastModified": 2}),
        ({"generation": 1}, {"generation": 2}),
        ({"mtime": 1.5}, {"mtime": 1.25}),
        ({"mtime": 1.5}, {"mtime": 1.5, "size": 11}),
    ],
)
def test_what_stores_tell(before, after):
    from craton.pandas.io.locations import Location

    store = Store(**before)
    objects = Location("key", store, "store").hold(["key"])
    objects.check()
    assert Location("key", store, "store").hold(["key"]).versions == objects.versions
    assert store.forgotten  # cached listings are not used
    store.told = after
    with pytest.raises(SourceChanged):
        objects.check()
    assert Location("key", store, "store").hold(["key"]).versions != objects.versions


def test_a_store_that_tells_nothing_is_never_the_same():
    from craton.pandas.io.locations import Location

    location = Location("key", Store(), "store")
    one, other = location.hold(["key", "more"]), location.hold(["key", "more"])
    one.check()
    assert not set(one.versions) & set(other.versions)


def test_versions_of_one_tick_are_settled(tmp_path):
    """Even a write immediately after the version was taken changes the version."""
    path = tmp_path / "file"
    path.write_bytes(b"0")
    for number in range(50):
        version = file_versions.settled_version(os.fspath(path))
        with open(path, "r+b") as file:
            file.write(str(number % 10).encode())
        assert file_versions.version_of(os.stat(path)) != version


def test_a_file_is_looked_at_from_several_threads(tmp_path):
    table(1).to_parquet(tmp_path / "table.parquet")
    frame = cp.read_parquet(tmp_path / "table.parquet")
    barrier, found = threading.Barrier(4), []

    def look():
        barrier.wait(60)
        found.append(frame["a"].sum())

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [ROWS] * 4
