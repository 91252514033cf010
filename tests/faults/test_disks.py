"""Full disks and folders that refuse: the error names the file, no page is lost, and writing resumes once there is room."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import children
import pyarrow as pa
import pytest
import served
from children import append, batch_of, intact
from served import Child, files_below

from craton.store import CorruptPage, LocalitySet, Store

LIMIT = 4 << 20


@contextlib.contextmanager
def mounted(folder: Path, options: str) -> Iterator[Callable[[str], None]]:
    """Mount a small disk at `folder`; yield a function that remounts it with other options. Skip without the permission."""

    def mount(options: str) -> bool:
        line = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        return subprocess.run(line, capture_output=True, check=False).returncode == 0

    if os.geteuid() != 0 or not mount(options):
        pytest.skip("only the superuser can mount a small disk")
    try:
        yield lambda options: None if mount(f"remount,{options}") else pytest.fail(f"cannot mount with {options}")
    finally:
        assert subprocess.run(["umount", str(folder)], check=False).returncode == 0


def fill(pages: LocalitySet) -> tuple[int, OSError]:
    """Append pages until the disk refuses one; return how many were appended, and the error."""
    for number in range(1000):
        try:
            append(pages, batch_of(3, number))
        except OSError as error:
            return number, error
    pytest.fail("the disk took everything")


@pytest.mark.parametrize("disk_size", ["size=3m", "nr_inodes=16"], ids=["bytes", "inodes"])
@pytest.mark.parametrize("remote", [False, True], ids=["embedded", "served"])
@pytest.mark.parametrize("durability", ["write-back", "write-through"])
def test_a_full_disk(tmp_path: Path, durability: str, remote: bool, disk_size: str) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    with mounted(disk, f"{disk_size},mode=700") as remount, contextlib.ExitStack() as stack:
        if remote:
            stack.enter_context(served.server(tmp_path / "run" / "sock", disk, LIMIT))
            store = Store.connect(str(tmp_path / "run" / "sock"))
        else:
            store = stack.enter_context(Store.open(LIMIT, directory=disk))
        pages = store.create_set("kept", durability=durability)
        number, error = fill(pages)
        assert error.errno == errno.ENOSPC
        assert str(disk) in str(error)
        assert ".arrow" in str(error), "the file is named"
        other = store.create_set("other", durability=durability)
        for _ in range(3):  # repeated failures do no harm
            assert fill(other)[1].errno == errno.ENOSPC
        other.drop()
        assert len(pages) == number
        images = {path for path in disk.rglob("*.arrow") if path.stat().st_size == 0}
        assert not images, "a file that could not be written was left"
        infos = pages.pages()
        if durability == "write-back":
            assert {info.location for info in infos} == {"disk", "memory"}, "the test needs pages in memory and on disk"
        for _ in range(2):  # pages on disk can be read although memory is full of pages that cannot be written
            assert all(intact(pages.pin(info)) for info in infos)
            assert all(intact(pages.pin(info)) for info in reversed(infos))
            assert all(intact(page) for page in pages.reader())
        assert fill(store.create_set("more", durability=durability))[1].errno == errno.ENOSPC
        remount("size=64m,nr_inodes=1000")
        for more in range(number, number + 30):
            append(pages, batch_of(3, more))
        assert len(pages) == number + 30
        assert all(intact(page) for page in pages.reader())
        counters = store.counters()
        assert counters["slab_used"] <= counters["page_memory"] + 64 * (4 * counters["pages"] + 1)
        del store, pages
    assert files_below(tmp_path) in (["disk"], ["disk", "run"])


def test_room_is_made_by_dropping(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    with mounted(disk, "size=3m,mode=700"), Store.open(LIMIT, directory=disk) as store:
        first = store.create_set("first")
        fill(first)
        second = store.create_set("second", durability="write-through")
        first.drop()
        for number in range(5):
            append(second, batch_of(5, number))
        assert all(intact(page) for page in second.reader())


@pytest.mark.parametrize("how", ["another user's", "read-only"])
def test_a_folder_that_refuses(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        if how == "read-only":
            remount = stack.enter_context(mounted(folder, "size=3m"))
            remount("ro")
            child = Child(children.refused_folder, str(folder))
            expected = errno.EROFS
        elif os.geteuid() == 0:
            for parent in (tmp_path, *tmp_path.parents):
                with contextlib.suppress(OSError):
                    stack.callback(parent.chmod, parent.stat().st_mode & 0o7777)
                    parent.chmod(parent.stat().st_mode & 0o7777 | 0o111)
            folder.chmod(0o755)
            child = Child(children.as_nobody, str(folder))
            expected = errno.EACCES
        else:
            folder.chmod(0o500)
            child = Child(children.refused_folder, str(folder))
            expected = errno.EACCES
        kept = child.expect("kept")
        child.expect("refused")
        child.process.join(served.PATIENCE)
        assert kept == ("kept", True, True)
        for _, kind, number, text in child.all("refused"):
            assert (kind, number) == ("PermissionError" if expected == errno.EACCES else "OSError", expected)
            assert str(folder) in text
        assert len(child.all("refused")) == 2
        assert child.process.exitcode == 0
        assert files_below(folder) == []


def test_files_that_may_not_grow(tmp_path: Path) -> None:
    """A file size limit of 1 kB applies to the superuser as well."""
    child = Child(children.refused_folder, str(tmp_path), 1000)
    kept = child.expect("kept")
    child.process.join(served.PATIENCE)
    (_, _, number, text), *_ = child.all("refused")
    assert kept == ("kept", True, True)
    assert number == errno.EFBIG
    assert str(tmp_path) in text
    assert ".arrow" in text
    assert files_below(tmp_path) == []


def test_memory_that_the_system_refuses(tmp_path: Path) -> None:
    child = Child(children.refused_memory, str(tmp_path))
    _, _, number, text = child.expect("refused")
    child.process.join(served.PATIENCE)
    assert number == errno.EFBIG
    assert "segment" in text


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_a_page_file_replaced_by_something_else(tmp_path: Path, kind: str) -> None:
    """The store does not block on a pipe, nor follow a link: the page counts as damaged, and new files replace these."""

    def replace(path: Path) -> None:
        if path.exists():
            path.unlink()
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "link":
            path.symlink_to(tmp_path / "elsewhere")
        else:
            path.mkdir()

    (tmp_path / "elsewhere").write_text("kept")
    with Store.open(LIMIT, directory=tmp_path) as store:
        pages = store.create_set("kept")
        for number in range(40):
            append(pages, batch_of(3, number))
        (folder,) = [path for path in tmp_path.glob("craton-store-*/*") if path.is_dir()]
        images = sorted(folder.glob("*.arrow"), key=lambda path: path.stat().st_size)
        replace(images[-1])
        damaged = []
        for info in pages.pages():
            try:
                assert intact(pages.pin(info))
            except CorruptPage as error:
                damaged.append(str(error))
        assert len(damaged) == 1
        assert str(images[-1]) in damaged[0]
        assert "regular file" in damaged[0] or kind == "folder"
        # Occupy every file name that the pages of another set may get.
        more = store.create_set("more")
        first = append(more, batch_of(4, 0))
        spare = folder.with_name(str(more.number))
        spare.mkdir(exist_ok=True)
        for number in range(first.number, first.number + 40):
            replace(spare / f"{number}.arrow")
        count, refused = 1, None
        while count < 40 and refused is None:
            try:
                append(more, batch_of(4, count))
                count += 1
            except OSError as error:
                refused = str(error)
        if kind == "folder":
            assert refused is not None
            assert str(spare) in refused
        else:
            assert refused is None
            assert {info.location for info in more.pages()} >= {"disk"}
        assert all(intact(pages_of) for pages_of in map(more.pin, more.pages()))
    assert (tmp_path / "elsewhere").read_text() == "kept"


def test_a_folder_that_is_removed(tmp_path: Path) -> None:
    """If the store's folder is removed while it is used, reading a page on disk fails with its name; pages in memory stay."""
    import shutil

    with Store.open(LIMIT, directory=tmp_path) as store:
        pages = store.create_set("kept")
        batch = pa.record_batch({"n": range(60_000), "text": ["x"] * 60_000})
        for _ in range(20):
            append(pages, batch)
        (folder,) = tmp_path.iterdir()
        shutil.rmtree(folder)
        errors = []
        for info in pages.pages():
            try:
                assert intact(pages.pin(info))
            except OSError as error:
                errors.append(str(error))
        assert 0 < len(errors) < 20
        assert all(str(folder) in error and ".arrow" in error for error in errors)
