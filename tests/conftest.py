"""Lets every test run its plans as tiles: ``CRATON_TEST_TILES=3 pytest tests/parity``.

After a comma, the bytes up to which a side of a join goes to all tiles of the other; after another, those up to which tiles
become one: with ``3,1,0`` everything is exchanged.
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
    """As if this process had no store yet; what others have left in the one that it has is there again afterwards."""
    from craton.store import process

    monkeypatch.setattr(process, "_store", None)
    monkeypatch.setattr(process, "_owner_pid", 0)
    yield
    process.close_store()
