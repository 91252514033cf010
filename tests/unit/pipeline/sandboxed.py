"""Helpers of the tests of sandboxes: tasks of local functions, and what is left of processes, descriptors and pages."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from craton.pipeline import preload
from craton.pipeline.sandboxes import Sandboxes
from craton.pipeline.tasks import Form, Limits, Outcome, Setting, StepError, StepTask, Stored
from craton.store import Store

needs_linux = pytest.mark.skipif(not preload.LIBRARY.exists(), reason="the allocator exists on Linux only")

UNLIMITED, HERE = Limits(), Setting()


class Steps:
    """A store and sandboxes, and calls of local functions in them."""

    def __init__(self, store: Store, sandboxes: Sandboxes) -> None:
        self.store, self.sandboxes = store, sandboxes

    def task(
        self,
        function: Callable[..., Any],
        inputs: dict[str, tuple[Stored, Form]] | None = None,
        *,
        limits: Limits = UNLIMITED,
        setting: Setting = HERE,
        **parameters: Any,
    ) -> StepTask:
        return StepTask(function.__name__, cloudpickle.dumps(function), inputs or {}, parameters, limits, setting)

    def run(self, function: Callable[..., Any], inputs: Any = None, **options: Any) -> Outcome:
        return self.sandboxes.run(self.task(function, inputs, **options))

    def one(self, function: Callable[..., Any], inputs: Any = None, **options: Any) -> Stored:
        """The only output."""
        (output,) = self.run(function, inputs, **options).outputs.values()
        return output

    def failing(self, function: Callable[..., Any], inputs: Any = None, **options: Any) -> StepError:
        with pytest.raises(StepError) as caught:
            self.run(function, inputs, **options)
        assert caught.value.step == function.__name__
        return caught.value

    def works(self) -> None:
        """Another step runs as usual."""

        def fine(n: int) -> Any:
            import pyarrow as pa

            return pa.table({"n": range(n)})

        assert self.one(fine, n=100_000).pages.to_arrow()["n"].to_pylist()[-1] == 99_999


def descendants(pid: int | None = None) -> list[int]:
    """All processes that descend from one."""
    found = [os.getpid() if pid is None else pid]
    for one in found:
        for task in _listed(f"/proc/{one}/task"):
            try:
                found += map(int, Path(f"/proc/{one}/task/{task}/children").read_text().split())
            except OSError:
                continue
    return found[1:]


def _listed(place: str) -> list[str]:
    try:
        return os.listdir(place)
    except OSError:
        return []


def memfds() -> list[str]:
    """The memfds of the allocator and of copies that this process has open."""
    found = []
    for fd in _listed("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            continue
    return [one for one in found if "craton-preload" in one or "craton-handover" in one]


def wait_for(condition: Callable[[], bool], seconds: float = 30) -> bool:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Steps]:
    before = set(descendants())
    with Store.open(1 << 30, directory=tmp_path_factory.mktemp("store")) as store:
        with Sandboxes(store) as sandboxes:
            yield Steps(store, sandboxes)
        assert wait_for(lambda: set(descendants()) <= before)


@pytest.fixture
def steps(opened: Steps) -> Iterator[Steps]:
    """Steps in a store, of which nothing but the zygote is left at the end of the test, except what the test itself keeps."""
    opened.works()
    (zygote,) = [one for one in descendants() if "craton.pipeline.zygote" in _command(one)][:1]
    descriptors, threads = len(_listed("/proc/self/fd")), threading.active_count()
    before = len(memfds())  # of stores of other tests
    yield opened
    gc.collect()  # tracebacks of errors refer to frames, which refer to outputs
    opened.works()
    assert wait_for(lambda: descendants(zygote) == []), [(one, _command(one)) for one in descendants(zygote)]
    assert len(memfds()) <= before
    assert wait_for(lambda: len(_listed("/proc/self/fd")) <= descriptors)
    assert threading.active_count() <= threads


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""
