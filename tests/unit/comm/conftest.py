"""Makes ``gang`` importable by the tests below, and runs each of them on groups of several sizes over all implementations."""

import importlib.util
import sys
from pathlib import Path

import pytest

import craton.comm

sys.path.insert(0, str(Path(__file__).parent))

from gang import Gang, Ranks

#: The sizes of groups, by implementation. The contract is the same for all; each has its own way of small and of odd groups.
ALL = (1, 2, 3, 4, 8)
SIZES = {"own": ALL, "tcp": (2, 3, 8), "mpi": ALL, "ucx": ALL, "gloo": ALL}
MOST = 8
#: The sizes for tests that need tables: libraries of tables take seconds to import in each process.
FEW = {"own": (1, 2, 4), "tcp": (3,), "mpi": (2,), "ucx": (3,), "gloo": (2,)}
_gangs: dict[str, Gang] = {}


def _gang(launcher: str) -> Gang:
    """Return the living processes that communicators are made of; they are started once."""
    known = _gangs.get(launcher)
    if known is None or not known.is_whole():
        known = _gangs[launcher] = Gang(MOST, launcher)
    return known


def _made(name: str, size: int) -> Ranks:
    if name == "mpi" and importlib.util.find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed: pip install craton[mpi]")
    if name == "gloo" and importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed: pip install torch")
    if name == "ucx" and "ucx" not in craton.comm.available():
        pytest.skip("UCX is not installed: pip install craton[ucx]")
    return _gang("mpi" if name == "mpi" else "plain").ranks(name, size)


def _ranks(request):
    """The ranks of a new communicator. ``tcp`` is Craton's own, by TCP within the machine."""
    made = _made(*request.param)
    yield made
    made.close()


def _params(sizes):
    found = []
    for name, some in sizes.items():
        for size in some:
            # Eight processes that poll are slow on few processors.
            marks = [pytest.mark.slow] if name in ("mpi", "ucx", "gloo") and size == 8 else []
            found.append(pytest.param((name, size), id=f"{name}-{size}", marks=marks))
    return found


ranks = pytest.fixture(params=_params(SIZES))(_ranks)
few_ranks = pytest.fixture(params=_params(FEW))(_ranks)


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


@pytest.fixture(params=["own", "tcp", "ucx"])
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
