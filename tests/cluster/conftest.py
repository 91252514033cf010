"""Fixtures: a session on each host."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import craton.cluster
from craton.cluster.sessions import ClusterSession

#: The host and the arguments of `craton.init` for each variant.
HOSTS: dict[str, tuple[str, dict[str, Any]]] = {
    "local": ("local", {"workers": 2, "threads": 2}),
    "local-2-machines": ("local", {"workers": 2, "threads": 1, "nodes": 2}),
    "dask": ("dask", {"workers": 2, "threads": 2}),
    "dask-2-machines": ("dask", {"workers": 2, "threads": 1, "nodes": 2}),
    "ray": ("ray", {"workers": 2, "threads": 2}),
}
#: The package that each host needs in addition to Craton.
NEEDS = {"dask": "distributed", "ray": "ray"}
#: The tests that always run on Dask and Ray. There, the other tests are slow, and mostly repeat what they test on the local host.
OFTEN = {
    "test_a_session",
    "test_a_thousand_tasks_of_a_random_graph",
    "test_an_error_ends_the_run_at_once",
    "test_a_task_survives_its_worker",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests on Dask and Ray as slow, except those in `OFTEN`."""
    for item in items:
        if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
            continue
        name = item.callspec.params.get("begin", "")
        if name in HOSTS and HOSTS[name][0] in NEEDS and (name not in NEEDS or item.originalname not in OFTEN):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="package", params=HOSTS)
def begin(request: pytest.FixtureRequest) -> Iterator[Callable[[], ClusterSession]]:
    """A function that begins a session on a host, or returns the current one."""
    host, arguments = HOSTS[request.param]
    if host in NEEDS and importlib.util.find_spec(NEEDS[host]) is None:
        pytest.skip(f"{NEEDS[host]} is not installed")

    def begun() -> ClusterSession:
        session = craton.cluster.init(host, **arguments)  # type: ignore[arg-type]
        assert isinstance(session, ClusterSession)
        return session

    yield begun
    craton.cluster.shutdown()


@pytest.fixture
def session(begin: Callable[[], ClusterSession]) -> ClusterSession:
    """A session that the tests of a host share."""
    return begin()


@pytest.fixture
def no_session() -> Iterator[None]:
    """End any session before and after the test."""
    craton.cluster.shutdown()
    yield
    craton.cluster.shutdown()
