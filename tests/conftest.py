"""Lets every test run its plans as tiles: ``CRATON_TEST_TILES=3 pytest tests/parity`` uses three tiles.

Two more numbers may follow, separated by commas: the size in bytes up to which a side of a join is broadcast to all tiles of
the other side, and the size up to which small tiles are merged into one. With ``3,1,0``, all rows are exchanged.
"""

import os

import pytest


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
