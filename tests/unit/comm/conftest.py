"""Makes ``gang`` importable by the tests below, and runs each of them on groups of several sizes over all implementations."""

import importlib.util
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from gang import Gang, Ranks

SIZES = (1, 2, 3, 4, 8)
_gangs: dict[str, Gang] = {}


def _gang(launcher: str) -> Gang:
    """Return the living processes that communicators are made of; they are started once."""
    known = _gangs.get(launcher)
    if known is None or not known.is_whole():
        known = _gangs[launcher] = Gang(max(SIZES), launcher)
    return known


def _made(name: str, size: int) -> Ranks:
    if name == "mpi" and importlib.util.find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed: pip install craton[mpi]")
    if name == "gloo" and importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed: pip install torch")
    return _gang("mpi" if name == "mpi" else "plain").ranks(name, size)


@pytest.fixture(
    params=[(name, size) for name in ("own", "tcp", "mpi", "gloo") for size in SIZES], ids=lambda p: f"{p[0]}-{p[1]}"
)
def ranks(request):
    """The ranks of a new communicator. ``tcp`` is Craton's own, by TCP within the machine."""
    made = _made(*request.param)
    yield made
    made.close()


@pytest.fixture
def make():
    """A function that makes ranks of a name and a size."""
    made = []

    def ranks(name: str, size: int) -> Ranks:
        made.append(_made(name, size))
        return made[-1]

    yield ranks
    for one in made:
        one.close()


@pytest.fixture(params=["own", "tcp"])
def fresh(request):
    """A function that starts processes of their own and returns their ranks; they may be killed."""
    gangs = []

    def ranks(size: int) -> Ranks:
        gangs.append(Gang(size, "plain"))
        return gangs[-1].ranks(request.param, size)

    yield ranks
    for gang in gangs:
        gang.end()


def pytest_sessionfinish():
    for gang in _gangs.values():
        gang.end()
