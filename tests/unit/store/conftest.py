"""Places for durable sets in object stores."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import craton


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    """The folder of local copies of objects."""
    with craton.option_context(data_cache=tmp_path / "cache", small_rows=0):
        yield tmp_path / "cache"


@pytest.fixture
def memory(cache: Path) -> Iterator[str]:
    """The URL of a place for sets in memory."""
    from fsspec.implementations.memory import MemoryFileSystem

    url = f"memory://sets-{uuid.uuid4().hex}/below"
    with craton.option_context(data=url):
        yield url
    MemoryFileSystem.store.clear()


@pytest.fixture
def s3(cache: Path, bucket: dict[str, Any]) -> Iterator[str]:
    """The URL of a place for sets in a bucket."""
    with craton.option_context(data="s3://bucket/some/sets", data_options=bucket):
        yield "s3://bucket/some/sets"


@pytest.fixture(params=["memory", "s3"])
def place(request: pytest.FixtureRequest) -> str:
    """The URL of a place for sets in memory, or in a bucket."""
    found: str = request.getfixturevalue(request.param)
    return found
