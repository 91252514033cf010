"""Lets every test run its plans as tiles: ``CRATON_TEST_TILES=3 pytest tests/parity``."""

import os

import pytest


@pytest.fixture(autouse=True, scope="session")
def _as_tiles():
    wanted = os.environ.get("CRATON_TEST_TILES")
    if not wanted:
        yield
        return
    from craton.lower.tiled import Settings
    from craton.lower.tiled.running import TiledEngine, using
    from craton.schedule.inline import InlineRunner

    count, _, broadcast = wanted.partition(",")
    settings = Settings(tiles=int(count), broadcast_bytes=int(broadcast or 1 << 20))
    with using(TiledEngine(InlineRunner(), settings=settings, least_bytes=0)):
        yield
