"""Settings of all tests.

- Every test can run its plans as tiles: ``CRATON_TEST_TILES=3 pytest tests/parity`` uses three tiles. Two more numbers may
  follow, separated by commas: the size in bytes up to which a side of a join is broadcast to all tiles of the other side, and
  the size up to which small tiles are merged into one. With ``3,1,0``, all rows are exchanged.
- Functions with many cases count as slow, except for a share of their cases that is the same in each run: a quarter of the
  tables of dtypes and calls still meets each dtype and each call many times. ``make test-all`` runs every case.
"""

import os
import zlib
from collections import Counter

import pytest

from tests.s3_server import bucket, server

__all__ = ["bucket", "server"]

MANY_CASES = 40
"""A test function with more cases than this runs a share of them only, unless slow tests are asked for."""
SHARE = 4
"""One in so many cases of such a function is not slow."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    functions = [item.nodeid.partition("[")[0] for item in items]
    cases = Counter(functions)
    for item, function in zip(items, functions, strict=True):
        if cases[function] > MANY_CASES and zlib.crc32(item.nodeid.encode()) % SHARE:
            item.add_marker("slow")


@pytest.fixture(autouse=True, scope="session")
def _as_tiles():
    wanted = os.environ.get("CRATON_TEST_TILES")
    if not wanted:
        yield
        return
    from craton.engine.tiled import TiledEngine, using
    from craton.lower.tiled import Settings
    from craton.schedule.inline import InlineRunner

    count, broadcast, collapse, *_ = [*wanted.split(","), "", ""]
    settings = Settings(
        tiles=int(count), broadcast_bytes=int(broadcast or 1 << 20), collapse_bytes=int(collapse or 4 << 20)
    )
    with using(TiledEngine(InlineRunner(), settings=settings, least_bytes=0)):
        yield


@pytest.fixture
def no_store(monkeypatch):
    """Run the test without this process's store; the store that the process had is restored afterwards."""
    from craton.store import process

    monkeypatch.setattr(process, "_store", None)
    monkeypatch.setattr(process, "_owner_pid", 0)
    yield
    process.close_store()
