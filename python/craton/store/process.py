"""The store of this process: embedded when it is first needed, or the one that was connected to."""

from __future__ import annotations

import atexit
import os

from craton import forks
from craton.config import options
from craton.store.store import Store

_lock = forks.reentrant_lock()
_store: Store | None = None
_owner = 0

#: Where ``craton store serve`` listens unless it is told otherwise.
SERVED = "craton/store.sock"


def default_address() -> str:
    """Where a served store of this user is looked for, and where one is served."""
    folder = os.environ.get("XDG_RUNTIME_DIR")
    if folder:
        return os.path.join(folder, SERVED)
    import tempfile

    return os.path.join(tempfile.gettempdir(), f"craton-{os.getuid()}", "store.sock")


def default_store() -> Store:
    """The store of this process.

    It is the one that :func:`connect` connected to; else the one that ``CRATON_STORE`` names in the environment; else one
    in this process, opened now, with ``craton.options.memory_limit``.
    """
    global _store, _owner
    with _lock:
        if _store is None or _owner != os.getpid():
            address = os.environ.get("CRATON_STORE")
            _store = Store.connect(address) if address else Store.open(options.memory_limit)
            _owner = os.getpid()
        return _store


def current_store() -> Store | None:
    """The store of this process if it has one already."""
    return _store if _owner == os.getpid() else None


def connect(address: str | None = None) -> Store:
    """Use a store that another process serves, from now on and in the whole process.

    Parameters
    ----------
    address
        What ``craton store serve`` printed; by default where it serves unless told otherwise.

    Raises
    ------
    ConnectionError
        If nobody serves there.

    Examples
    --------
    In a terminal: ``python -m craton store serve``; then in any number of programs:

    >>> import craton
    >>> craton.connect()  # doctest: +SKIP
    <Store at /run/user/1000/craton/store.sock>
    """
    global _store, _owner
    with _lock:
        found = Store.connect(address or os.environ.get("CRATON_STORE") or default_address())
        _store, _owner = found, os.getpid()
        return found


@atexit.register
def close_store() -> None:
    """Close the store of this process; the next use opens another."""
    global _store
    with _lock:
        if _store is not None and _owner == os.getpid():
            _store.close()
        _store = None
