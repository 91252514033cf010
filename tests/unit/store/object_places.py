"""Looks at objects below the URL of durable sets, and changes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fsspec

import craton

#: No store is served at this address.
NOWHERE = ["--address", "@no-store-is-served-here"]


def files_of(url: str) -> Any:
    """fsspec's file system of a URL."""
    return fsspec.core.url_to_fs(url, use_listings_cache=False, **craton.options.data_options)[0]


def objects(url: str) -> list[str]:
    """The objects below a URL."""
    files = files_of(url)
    start = len(files._strip_protocol(url)) + 1
    return sorted(name[start:] for name in files.find(files._strip_protocol(url)))


def change(url: str, how: Callable[[bytes], bytes]) -> None:
    """Change the contents of an object."""
    files = files_of(url)
    files.pipe_file(url, how(files.cat_file(url)))
