"""Fixtures: workers that are threads of this process, and settings that send every function to workers."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from counted import Counted

from craton.remote import parallel_calls
from craton.remote import session as sessions
from craton.schedule.inline import InlineRunner


@pytest.fixture(scope="module")
def workers() -> Iterator[None]:
    """Workers that are threads of this process."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    runner = InlineRunner(bands=2, threads=2)
    sessions.use_session_factory(lambda: sessions.FunctionSession(runner, loop))
    yield
    sessions.use_session_factory(None)

    async def settle() -> None:
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}), return_exceptions=True)

    asyncio.run_coroutine_threadsafe(settle(), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def parallel(workers: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    """Send every function to workers after its first call, in pieces of any duration; yield the count of pieces."""
    monkeypatch.setattr(parallel_calls, "PIECE_SECONDS", (1e-9, 0.5))
    monkeypatch.setattr(parallel_calls, "MIN_PARALLEL_SECONDS", -1.0)
    monkeypatch.setattr(parallel_calls, "SAMPLE_SECONDS", 0.0)
    with Counted() as counted:
        yield counted
