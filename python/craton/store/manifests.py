"""Manifests of durable sets as bytes, as ``crates/store/src/durable/manifest.rs`` writes and reads them."""

from __future__ import annotations

import json

from craton import _native

__all__ = ["decoded", "encoded", "names_of_files"]

_MAGIC, _FORMAT = "craton-set", 1


def names_of_files(text: str) -> set[str]:
    """The names of the files of a manifest, given as JSON."""
    return {file["name"] for file in json.loads(text)["files"]}


def encoded(text: str) -> bytes:
    """A manifest, given as JSON, with the line before it."""
    body = text.encode()
    return f"{_MAGIC} {_FORMAT} {len(body)} {_native.checksum(body):08x}\n".encode() + body


def decoded(content: bytes, number: int, url: str) -> str:
    """A manifest as JSON.

    Raises
    ------
    CorruptSet
        If it is not what was written.
    ValueError
        If a newer version of Craton wrote it.
    """
    line, end, body = content.partition(b"\n")
    words = line.decode("ascii", "replace").split(" ")
    if not end or len(words) != 4 or words[0] != _MAGIC or not words[1].isdecimal():
        raise _native.CorruptSet(f"{url}: it is not the manifest of a set")
    if int(words[1]) > _FORMAT:
        raise ValueError(f"{url}: it has format {words[1]}, and this version of Craton reads formats up to {_FORMAT}")
    if words[1:] != [str(_FORMAT), str(len(body)), f"{_native.checksum(body):08x}"]:
        raise _native.CorruptSet(f"{url}: it is damaged: its length or its checksum differs")
    try:
        text = body.decode()
        manifest = json.loads(text)
        names = [file["name"] for file in manifest["files"]]
    except (ValueError, KeyError, TypeError) as error:
        raise _native.CorruptSet(f"{url}: it is damaged: {error}") from error
    if manifest.get("version") != number:
        raise _native.CorruptSet(f"{url}: it is the manifest of version {manifest.get('version')}")
    if odd := [name for name in names if not name or name.startswith(".") or set(name) & set("/\\\0")]:
        raise _native.CorruptSet(f"{url}: it is damaged: it names a file {odd[0]!r}")
    return text
