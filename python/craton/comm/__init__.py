"""Communicators: groups of processes, the ranks, that exchange values and call collectives together.

`Communicator` is the interface, with its guarantees. `connect` makes one:

- ``own``, the default: shared memory between processes of one machine, authenticated TCP between machines;
- ``mpi``: MPI, by mpi4py (``pip install craton[mpi]``);
- ``ucx``: UCX, for networks with RDMA (``pip install craton[ucx]``, or the system's ``libucx0``);
- ``gloo``: Gloo, by PyTorch (``pip install torch``).
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from craton.comm.base import Communicator, Reduction
from craton.comm.errors import CollectiveMismatch, CommunicatorClosed, RankFailed

__all__ = [
    "CollectiveMismatch",
    "Communicator",
    "CommunicatorClosed",
    "RankFailed",
    "Reduction",
    "available",
    "bind",
    "check_available",
    "connect",
    "world",
]


def _has_package(name: str) -> Callable[[], bool]:
    return lambda: importlib.util.find_spec(name) is not None


def _has_ucx() -> bool:
    from craton.comm.ucx_library import find_library

    return find_library() is not None


class _Implementation(NamedTuple):
    """The module of an implementation, whether what it needs is installed, the package to install, and how."""

    module: str
    installed: Callable[[], bool]
    package: str = ""
    advice: str = ""


_IMPLEMENTATIONS = {
    "own": _Implementation("craton.comm.own", lambda: True),
    "mpi": _Implementation("craton.comm.mpi", _has_package("mpi4py"), "mpi4py", "pip install 'craton[mpi]'"),
    "ucx": _Implementation("craton.comm.ucx", _has_ucx, "libucx-cu12", "pip install 'craton[ucx]'"),
    "gloo": _Implementation("craton.comm.gloo", _has_package("torch"), "torch", "pip install torch"),
}


def available() -> list[str]:
    """Return the names of the implementations whose packages are installed.

    Examples
    --------
    >>> import craton.comm
    >>> craton.comm.available()[0]
    'own'
    """
    return [name for name, implementation in _IMPLEMENTATIONS.items() if implementation.installed()]


def bind(name: str = "own", *, host: str | None = None) -> Any:
    """Make a rank's endpoint; its ``address``, bytes, is what `connect` needs of all ranks.

    Parameters
    ----------
    name : str
        The implementation.
    host : str, optional
        The name or number by which other machines reach this one. Without it, only processes of this machine do.
    """
    return _module(name).Endpoint.bind(host)


def connect(
    name: str, endpoint: Any, rank: int, addresses: Sequence[bytes], key: bytes, *, timeout: float = 60.0
) -> Communicator:
    """Connect with all other ranks, which call this at the same time.

    Parameters
    ----------
    name : str
        The implementation: see the module.
    endpoint : object
        What `bind` has returned for this rank.
    rank : int
        This rank's number.
    addresses : sequence of bytes
        The addresses of all ranks' endpoints, by number.
    key : bytes
        Random bytes that all ranks share, at least 16.
    timeout : float
        Seconds that the others are waited for.

    Raises
    ------
    ValueError
        There is no such implementation, or an argument is wrong.
    ModuleNotFoundError
        A package that it needs is not installed; the text says which.
    RankFailed, ConnectionError
        A rank cannot be reached, or has another key.
    """
    module = _module(name)
    if not 0 <= rank < len(addresses) or addresses[rank] != endpoint.address:
        raise ValueError(f"the address of rank {rank} is not that of the endpoint")
    made: Communicator = module.connect(endpoint, rank, addresses, key, timeout=timeout)
    return made


def world(name: str = "mpi") -> Communicator:
    """Return the communicator of all processes of a program that another launcher has started.

    Parameters
    ----------
    name : str
        ``mpi`` in programs that mpiexec has started.

    Raises
    ------
    ValueError
        The implementation has no launcher of its own.
    ModuleNotFoundError
        As for `connect`.
    """
    module = _module(name)
    if not hasattr(module, "world"):
        raise ValueError(f"ranks of {name!r} have no launcher of their own: use bind() and connect()")
    made: Communicator = module.world()
    return made


def check_available(name: str) -> None:
    """Check that an implementation can be used here.

    Raises
    ------
    ValueError
        There is no such implementation.
    ModuleNotFoundError
        A package that it needs is not installed; the text says which.
    """
    if name not in _IMPLEMENTATIONS:
        raise ValueError(f"there is no communicator {name!r}: use one of {', '.join(_IMPLEMENTATIONS)}")
    _, installed, package, advice = _IMPLEMENTATIONS[name]
    if not installed():
        raise ModuleNotFoundError(f"the communicator {name!r} needs the package {package}: {advice}", name=package)


def _module(name: str) -> Any:
    check_available(name)
    return importlib.import_module(_IMPLEMENTATIONS[name].module)
