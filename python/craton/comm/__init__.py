"""Communicators: groups of processes, the ranks, that exchange values and call collectives together.

`Communicator` is the interface, with its guarantees. `connect` makes one:

- ``own``, the default: shared memory between processes of one machine, authenticated TCP between machines;
- ``mpi``: MPI, by mpi4py (``pip install craton[mpi]``);
- ``gloo``: Gloo, by PyTorch (``pip install torch``).
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from typing import Any

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
    "connect",
    "world",
]

#: The modules of the implementations, the packages that they need, and how to install these.
_IMPLEMENTATIONS: dict[str, tuple[str, str | None, str]] = {
    "own": ("craton.comm.own", None, ""),
    "mpi": ("craton.comm.mpi", "mpi4py", "pip install 'craton[mpi]'"),
    "gloo": ("craton.comm.gloo", "torch", "pip install torch"),
}


def available() -> list[str]:
    """Return the names of the implementations whose packages are installed.

    Examples
    --------
    >>> import craton.comm
    >>> craton.comm.available()[0]
    'own'
    """
    found = []
    for name, (_, package, _) in _IMPLEMENTATIONS.items():
        if package is None or importlib.util.find_spec(package) is not None:
            found.append(name)
    return found


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
    made: Communicator = _module(name).connect(endpoint, rank, addresses, key, timeout=timeout)
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


def _module(name: str) -> Any:
    if name == "ucx":
        raise ValueError("there is no communicator over UCX: use 'mpi' with an MPI that uses UCX, or 'own'")
    if name not in _IMPLEMENTATIONS:
        raise ValueError(f"there is no communicator {name!r}: use one of {', '.join(_IMPLEMENTATIONS)}")
    module, package, advice = _IMPLEMENTATIONS[name]
    if package is not None and importlib.util.find_spec(package) is None:
        raise ModuleNotFoundError(f"the communicator {name!r} needs the package {package}: {advice}", name=package)
    return importlib.import_module(module)
