"""Where a reader's path or URL leads: local files, what the kernel's own object store opens, or an fsspec file system.

pandas' ``storage_options`` speak fsspec's language; :func:`object_store_options` says the same to the kernel's object
store, or that it can't. Then the files are read through fsspec, lazily too.
"""

from __future__ import annotations

import glob
import hashlib
import io
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any

from craton.errors import Unsupported
from craton.lower.held import HeldFiles, HeldObjects
from craton.records import dataclass
from craton.refusals import Refusal

_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.\-]*(::[A-Za-z0-9+.\-]+)*://")
_GLOB = frozenset("*?[")
#: Schemes that the kernel's object store opens, and the fsspec options that mean something to it.
_STORES: dict[tuple[str, ...], dict[str, str]] = {
    ("s3", "s3a"): {
        "key": "aws_access_key_id",
        "secret": "aws_secret_access_key",
        "token": "aws_session_token",
        "endpoint_url": "aws_endpoint_url",
        "anon": "aws_skip_signature",
    },
    ("gs", "gcs"): {"token": "google_service_account", "anon": "google_skip_signature"},
    ("az", "abfs", "abfss", "adl"): {
        "account_name": "azure_storage_account_name",
        "account_key": "azure_storage_account_key",
        "sas_token": "azure_storage_sas_key",
        "tenant_id": "azure_storage_tenant_id",
        "client_id": "azure_storage_client_id",
        "client_secret": "azure_storage_client_secret",
        "anon": "azure_skip_signature",
    },
}
_CLIENT = {"endpoint_url": "aws_endpoint_url", "region_name": "aws_region"}


@dataclass(frozen=True, slots=True)
class Location:
    """What a path or URL leads to.

    Parameters
    ----------
    path
        A path or a list of paths; within ``filesystem``, if there is one.
    filesystem
        How pyarrow reads metadata: an fsspec or pyarrow file system, or ``None`` for local files.
    scheme
        The URL's scheme; empty for local files.
    store
        The options for the kernel's object store, if that scans the files; else ``None``.
    """

    path: Any
    filesystem: Any = None
    scheme: str = ""
    store: Mapping[str, str] | None = field(default=None)

    def scannable(self, files: Sequence[str]) -> tuple[str, ...]:
        """The files' names for the kernel's scan."""
        if self.store is None:
            return tuple(files)
        return tuple(name if _URL.match(name) else f"{self.scheme}://{name}" for name in files)

    def hold(self, files: Sequence[str]) -> HeldFiles | HeldObjects:
        """The files as they are now: what tells that they changed, and keeps them readable where that can be.

        Raises
        ------
        Unsupported
            If there is no such file (pandas words the error), or it is none: what a pipe gives can be read once.
        """
        if self.filesystem is None:
            try:
                if not all(stat.S_ISREG(os.stat(name).st_mode) for name in files):
                    raise Unsupported(Refusal.FILE_FOR_PANDAS, "it is no regular file")
                return HeldFiles(files)
            except OSError as error:
                raise Unsupported(Refusal.FILE_FOR_PANDAS, error) from error
        return HeldObjects(self.scannable(files), [partial(_state, self.filesystem, name) for name in files])


def locate(path: Any, storage_options: Mapping[str, Any] | None = None, *, patterns: bool = False) -> Location:
    """Find out what a reader's first argument means.

    Parameters
    ----------
    path
        As the user gave it.
    storage_options
        As for pandas.
    patterns
        Whether a local glob pattern means the files that match, in order.

    Raises
    ------
    Unsupported
        For anything but paths and URLs, and where the file system can't be had: pandas words the error.
    """
    if isinstance(path, (list, tuple)) and path and all(isinstance(item, (str, Path)) for item in path):
        found = [locate(item, storage_options) for item in path]
        if any(one.filesystem is not None for one in found):
            raise Unsupported(Refusal.FILE_LIST_OF_URLS)
        return Location([one.path for one in found])
    if isinstance(path, Path):
        path = os.fspath(path)
    if not isinstance(path, str):
        raise Unsupported(Refusal.FILE_PATH_TYPE, type(path).__name__)
    if _URL.match(path):
        return _remote(path, dict(storage_options or {}))
    if storage_options:
        raise Unsupported(Refusal.PARAMETER, "storage_options, beside a local path")
    path = os.path.expanduser(path)
    if patterns and _GLOB & set(path) and not os.path.exists(path):
        matches = sorted(glob.glob(path, recursive=True))
        if not matches:
            raise Unsupported(Refusal.FILE_PATTERN)
        return Location(matches)
    return Location(path)


def is_url(path: str) -> bool:
    """Whether a string is a URL, chained ones of fsspec too."""
    return _URL.match(path) is not None


def _remote(url: str, given: dict[str, Any]) -> Location:
    scheme = url.split("://", 1)[0].lower()
    if scheme == "file" and not given:
        from urllib.parse import unquote, urlsplit

        return Location(unquote(urlsplit(url).path))
    if scheme in ("http", "https"):
        if given:
            raise Unsupported(Refusal.FILE_HTTP_HEADERS)
        return Location(url, HttpFiles(), scheme, {})
    store = object_store_options(scheme, given)
    if store is not None and not given:
        import pyarrow.fs

        try:
            filesystem, inner = pyarrow.fs.FileSystem.from_uri(url)
        except (ValueError, OSError, NotImplementedError):
            pass  # a scheme that pyarrow does not know, or not with these settings
        else:
            return Location(inner, filesystem, scheme, store)
    import fsspec

    try:
        filesystem, inner = fsspec.core.url_to_fs(url, **given)
    except Exception as error:
        raise Unsupported(Refusal.FILE_FOR_PANDAS, error) from error
    return Location(inner, filesystem, scheme, store)


def object_store_options(scheme: str, given: Mapping[str, Any]) -> dict[str, str] | None:
    """Options of fsspec in the words of the kernel's object store.

    Returns
    -------
    dict or None
        ``None`` if the store does not know the scheme, or an option has no counterpart.
    """
    for schemes, words in _STORES.items():
        if scheme not in schemes:
            continue
        options: dict[str, str] = {}
        for key, value in given.items():
            if (
                key == "client_kwargs"
                and "key" in words
                and isinstance(value, Mapping)
                and value.keys() <= _CLIENT.keys()
            ):
                options |= {_CLIENT[name]: str(one) for name, one in value.items()}
            elif key in words and isinstance(value, (str, bool)):
                options[words[key]] = str(value).lower() if isinstance(value, bool) else value
            else:
                return None
        if options.get("aws_endpoint_url", "").startswith("http://"):
            options["aws_allow_http"] = "true"
        return options
    return None


#: What file systems of fsspec call what changes with an object's content: tags and versions, and times.
_TAGS = (
    *("ETag", "etag", "e_tag", "VersionId", "version_id", "version", "generation", "content_hash", "content_md5"),
    *("contentMd5", "md5Hash", "checksum", "crc32c", "sha256", "oid", "blob_id"),
)
_TIMES = ("LastModified", "last_modified", "modified", "mtime", "updated", "created", "last_commit")


def _state(filesystem: Any, name: str) -> Any:
    """What tells one state of a remote file from another; None if nothing does, or it is gone."""
    if isinstance(filesystem, HttpFiles):
        return filesystem.state(name)
    try:
        if hasattr(filesystem, "get_file_info"):
            return _arrow_state(filesystem, name)
        if "memory" in filesystem.protocol:  # whose files are changed without a trace
            return hashlib.blake2b(filesystem.cat_file(name), digest_size=16).hexdigest()
        filesystem.invalidate_cache(name)
        info = filesystem.info(name)
    except Exception:
        return None
    told = tuple((key, str(info[key])) for key in (*_TAGS, *_TIMES) if info.get(key) is not None)
    if not told:
        try:
            told = (("modified", str(filesystem.modified(name))),)
        except Exception:
            return None
    return ("size", info.get("size")), *told


def _arrow_state(filesystem: Any, name: str) -> Any:
    info = filesystem.get_file_info(name)
    with filesystem.open_input_file(name) as file:
        metadata = dict(file.metadata() or {})
    tag = metadata.get(b"ETag") or metadata.get("ETag")
    return None if tag is None and info.mtime_ns is None else (info.size, info.mtime_ns, tag)


class HttpFiles:
    """Files of a web server that answers range requests: for metadata; the kernel reads the rows."""

    def open(self, url: str) -> HttpFile:
        """Open a file for reading.

        Raises
        ------
        Unsupported
            If the server does not tell the size or does not answer ranges.
        """
        return HttpFile(url)

    def state(self, url: str) -> tuple[str, ...] | None:
        """What the server says of the file's version; None if it says nothing, or has it no more."""
        try:
            headers = _head(url)
        except Unsupported:
            return None
        told = tuple(headers.get(name, "") for name in ("Content-Length", "Last-Modified", "ETag"))
        return told if any(told[1:]) else None


def _head(url: str) -> Any:
    import urllib.request

    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD")) as answer:
            return answer.headers
    except (OSError, ValueError) as error:
        raise Unsupported(Refusal.FILE_FOR_PANDAS, error) from error


class HttpFile(io.RawIOBase):
    """A file of a web server, read by ranges."""

    def __init__(self, url: str) -> None:
        headers = _head(url)
        if "bytes" not in headers.get("Accept-Ranges", "") or not headers.get("Content-Length"):
            raise Unsupported(Refusal.FILE_SERVER)
        self._url = url
        self._size = int(headers["Content-Length"])
        self._position = 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._size, self._position + size)
        if end <= self._position:
            return b""
        import urllib.request

        asked = urllib.request.Request(self._url, headers={"Range": f"bytes={self._position}-{end - 1}"})
        with urllib.request.urlopen(asked) as answer:
            if answer.status != 206:
                raise OSError(f"{self._url}: asked for bytes {self._position}-{end - 1}, got the whole file")
            data: bytes = answer.read()
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
