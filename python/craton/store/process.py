"""The process's store: opened in this process on first use, or the served store that the process connected to."""

from __future__ import annotations

import atexit
import os

from craton import forks
from craton.config import options
from craton.store.store import Store

_lock = forks.reentrant_lock()
_store: Store | None = None
#: The process that `_store` belongs to: a forked child does not use its parent's store.
_owner_pid = 0

#: Default path of the socket of ``craton store serve``, below ``XDG_RUNTIME_DIR``.
SOCKET_PATH = "craton/store.sock"


def default_address() -> str:
    """The default socket path of this user's served store, for the server and its clients."""
    folder = os.environ.get("XDG_RUNTIME_DIR")
    if folder:
        return os.path.join(folder, SOCKET_PATH)
    import tempfile

    return os.path.join(tempfile.gettempdir(), f"craton-{os.getuid()}", "store.sock")


def default_store() -> Store:
    """The store of this process.

    It is the store that :func:`connect` connected to; else the one at the address in the environment variable ``CRATON_STORE``;
    else a store in this process, opened by the first call with ``craton.options.memory_limit``.
    """
    global _store, _owner_pid
    with _lock:
        if _store is None or _owner_pid != os.getpid():
            address = os.environ.get("CRATON_STORE")
            _store = Store.connect(address) if address else Store.open(options.memory_limit)
            _owner_pid = os.getpid()
        return _store


def current_store() -> Store | None:
    """The store of this process, or None if none was opened or connected to."""
    return _store if _owner_pid == os.getpid() else None


def connect(address: str | None = None) -> Store:
    """Connect to a store that another process serves, and make it this process's store from now on.

    Parameters
    ----------
    address
        The path that ``craton store serve`` printed; by default ``CRATON_STORE`` in the environment, else the server's default path.

    Raises
    ------
    ConnectionError
        If no store is served at that address.

    Examples
    --------
    In a terminal: ``python -m craton store serve``; then in any number of programs:

    >>> import craton
    >>> craton.connect()  # doctest: +SKIP
    <Store at /run/user/1000/craton/store.sock>
    """
    global _store, _owner_pid
    with _lock:
        connected = Store.connect(address or os.environ.get("CRATON_STORE") or default_address())
        _store, _owner_pid = connected, os.getpid()
        return connected


_connected: dict[str, Store] = {}


def store_at(address: str) -> Store:
    """The store at that address: this process's store, or a connection that is made once and kept.

    Raises
    ------
    ConnectionError
        If no store is served there.
    """
    default = default_store()
    if default.address == address:
        return default
    if address not in _connected:
        _connected[address] = Store.connect(address)
    return _connected[address]


@atexit.register
def close_store() -> None:
    """Close the store of this process; the next :func:`default_store` opens or connects again."""
    global _store
    with _lock:
        if _store is not None and _owner_pid == os.getpid():
            _store.close()
        _store = None
