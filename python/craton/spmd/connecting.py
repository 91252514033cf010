"""The communicator of a rank, which is connected again after an error has ended it."""

from __future__ import annotations

import threading
from typing import Any

from craton.comm import bind, connect
from craton.comm.base import Communicator
from craton.comm.errors import CommunicatorClosed

__all__ = ["Connector"]


class Connector:
    """Connects a rank to the others.

    Parameters
    ----------
    name
        The name of the communicator.
    rank
        The rank's number.
    host
        The host name or address at which other machines reach this one; empty if all ranks are on this machine.
    """

    def __init__(self, name: str, rank: int, host: str) -> None:
        self._name, self._rank, self._host = name, rank, host
        self._endpoint: Any = None
        self._communicator: Communicator | None = None
        self._lock = threading.Lock()

    def bind(self) -> bytes:
        """Close the communicator, and return the address of the next one.

        Raises
        ------
        ValueError
            If there is no such communicator.
        ModuleNotFoundError
            If it needs a package that is not installed.
        """
        self.close()
        self._endpoint = bind(self._name, host=self._host or None)
        address: bytes = self._endpoint.address
        return address

    def connect(self, addresses: list[bytes], key: bytes) -> None:
        """Connect to all ranks; returns when that is done."""
        endpoint, self._endpoint = self._endpoint, None
        communicator = connect(self._name, endpoint, self._rank, addresses, key)
        with self._lock:
            self._communicator = communicator

    @property
    def communicator(self) -> Communicator:
        """The communicator.

        Raises
        ------
        CommunicatorClosed
            If there is none.
        """
        if self._communicator is None:
            raise CommunicatorClosed("the communicator is not connected")
        return self._communicator

    def abort(self, reason: str) -> None:
        """End the communicator on all ranks; may be called in any thread."""
        with self._lock:
            if self._communicator is not None:
                self._communicator.abort(reason)

    def close(self) -> None:
        """Close the communicator."""
        with self._lock:
            communicator, self._communicator = self._communicator, None
        if communicator is not None:
            communicator.close()
