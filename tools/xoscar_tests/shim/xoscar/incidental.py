"""Helper functions that tests of other features use; the runner installs this module as `xoscar.utils`."""

import importlib
import socket
import sys
from typing import Any

from .private import names_of


def get_next_port() -> int:
    """Return a free port."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def lazy_import(name: str) -> Any:
    """Return a module, or None if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def is_linux() -> bool:
    """Return whether this is Linux."""
    return sys.platform == "linux"


def is_windows() -> bool:
    """Return whether this is Windows."""
    return sys.platform == "win32"


__getattr__ = names_of("xoscar.utils")
