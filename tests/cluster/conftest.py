"""Sessions on every host that there is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import craton.cluster
from craton.cluster.sessions import ClusterSession

#: What each host is begun with.
HOSTS: dict[str, tuple[str, dict[str, Any]]] = {
    "local": ("local", {"workers": 2, "threads": 2}),
    "local-2-machines": ("local", {"workers": 2, "threads": 1, "nodes": 2}),
}


@pytest.fixture(scope="package", params=HOSTS)
def begin(request: pytest.FixtureRequest) -> Iterator[Callable[[], ClusterSession]]:
    """Begins a session on a host, or returns the one that there is."""
    host, arguments = HOSTS[request.param]

    def begun() -> ClusterSession:
        session = craton.cluster.init(host, **arguments)  # type: ignore[arg-type]
        assert isinstance(session, ClusterSession)
        return session

    yield begun
    craton.cluster.shutdown()


@pytest.fixture
def session(begin: Callable[[], ClusterSession]) -> ClusterSession:
    """A session, which the tests of a host share."""
    return begin()
