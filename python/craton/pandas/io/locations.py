"""Resolves the path or URL of a reader: to local files, to the kernel's own object store, or to an fsspec file system.

pandas' ``storage_options`` are options of fsspec. :func:`object_store_options` translates them for the kernel's object store;
if that is not possible, the files are read through fsspec, lazily too.
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
from craton.lower.file_versions import HeldFiles, HeldObjects
from craton.records import dataclass
from craton.refusals import Refusal

_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.\-]*(::[A-Za-z0-9+.\-]+)*://")
_GLOB = frozenset("*?[")
#: The schemes that the kernel's object store opens, with its names for options of fsspec.
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
    """The files that a path or URL refers to.

    Parameters
    ----------
    path
        A path or a list of paths; within ``filesystem``, if there is one.
    filesystem
        The file system through which pyarrow reads metadata, of fsspec or pyarrow; ``None`` for local files.
    scheme
        The URL's scheme; empty for local files.
    store
        The options of the kernel's object store if it scans the files; ``None`` if they are read through ``filesystem``.
    """

    path: Any
    filesystem: Any = None
    scheme: str = ""
    store: Mapping[str, str] | None = field(default=None)

    def scannable(self, files: Sequence[str]) -> tuple[str, ...]:
        """The paths or URLs by which the kernel's scan opens the files."""
        if self.store is None:
            return tuple(files)
        return tuple(name if _URL.match(name) else f"{self.scheme}://{name}" for name in files)

    def hold(self, files: Sequence[str]) -> HeldFiles | HeldObjects:
        """The present versions of the files, with which changes are detected, and if possible descriptors to keep them readable.

        Raises
        ------
        Unsupported
            If a file does not exist (pandas raises the error), or is not a regular file: a pipe can be read only once.
        """
        if self.filesystem is None:
            try:
                if not all(stat.S_ISREG(os.stat(name).st_mode) for name in files):
                    raise Unsupported(Refusal.FILE_FOR_PANDAS, "it is not a regular file")
                return HeldFiles(files)
            except OSError as error:
                raise Unsupported(Refusal.FILE_FOR_PANDAS, error) from error
        return HeldObjects(self.scannable(files), [partial(_state, self.filesystem, name) for name in files])


def locate(path: Any, storage_options: Mapping[str, Any] | None = None, *, patterns: bool = False) -> Location:
    """Resolve the first argument of a reader.

    Parameters
    ----------
    path
        The argument as the user gave it.
    storage_options
        The options of fsspec, as in pandas.
    patterns
        Whether a local glob pattern stands for the files that match it, in sorted order.

    Raises
    ------
    Unsupported
        If the argument is neither a path nor a URL, or its file system cannot be opened: pandas raises the error.
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
        raise Unsupported(Refusal.PARAMETER, "storage_options for a local path")
    path = os.path.expanduser(path)
    if patterns and _GLOB & set(path) and not os.path.exists(path):
        matches = sorted(glob.glob(path, recursive=True))
        if not matches:
            raise Unsupported(Refusal.FILE_PATTERN)
        return Location(matches)
    return Location(path)


def is_url(path: str) -> bool:
    """Whether a string is a URL, possibly a chained URL of fsspec."""
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
            pass  # pyarrow does not support the scheme, or needs other settings
        else:
            return Location(inner, filesystem, scheme, store)
    import fsspec

    try:
        filesystem, inner = fsspec.core.url_to_fs(url, **given)
    except Exception as error:
        raise Unsupported(Refusal.FILE_FOR_PANDAS, error) from error
    return Location(inner, filesystem, scheme, store)


def object_store_options(scheme: str, given: Mapping[str, Any]) -> dict[str, str] | None:
    """Translate options of fsspec to options of the kernel's object store.

    Returns
    -------
    dict or None
        ``None`` if the store does not support the scheme, or an option has no counterpart.
    """
    for schemes, translations in _STORES.items():
        if scheme not in schemes:
            continue
        options: dict[str, str] = {}
        for key, value in given.items():
            if (
                key == "client_kwargs"
                and "key" in translations
                and isinstance(value, Mapping)
                and value.keys() <= _CLIENT.keys()
            ):
                options |= {_CLIENT[name]: str(one) for name, one in value.items()}
            elif key in translations and isinstance(value, (str, bool)):
                options[translations[key]] = str(value).lower() if isinstance(value, bool) else value
            else:
                return None
        if options.get("aws_endpoint_url", "").startswith("http://"):
            options["aws_allow_http"] = "true"
        return options
    return None


#: The names under which fsspec's file systems report modification times, and tags and versions that change with the content.
_TAGS = (
    *("ETag", "etag", "e_tag", "VersionId", "version_id", "version", "generation", "content_hash", "content_md5"),
    *("contentMd5", "md5Hash", "checksum", "crc32c", "sha256", "oid", "blob_id"),
)
_TIMES = ("LastModified", "last_modified", "modified", "mtime", "updated", "created", "last_commit")


def _state(filesystem: Any, name: str) -> Any:
    """The version of a remote file; None if the file system reports none, or the file does not exist."""
    if isinstance(filesystem, HttpFiles):
        return filesystem.state(name)
    try:
        if hasattr(filesystem, "get_file_info"):
            return _arrow_state(filesystem, name)
        if "memory" in filesystem.protocol:  # this file system records no times, so the content is hashed
            return hashlib.blake2b(filesystem.cat_file(name), digest_size=16).hexdigest()
        filesystem.invalidate_cache(name)
        info = filesystem.info(name)
    except Exception:
        return None
    tags = tuple((key, str(info[key])) for key in (*_TAGS, *_TIMES) if info.get(key) is not None)
    if not tags:
        try:
            tags = (("modified", str(filesystem.modified(name))),)
        except Exception:
            return None
    return ("size", info.get("size")), *tags


def _arrow_state(filesystem: Any, name: str) -> Any:
    info = filesystem.get_file_info(name)
    with filesystem.open_input_file(name) as file:
        metadata = dict(file.metadata() or {})
    tag = metadata.get(b"ETag") or metadata.get("ETag")
    return None if tag is None and info.mtime_ns is None else (info.size, info.mtime_ns, tag)


class HttpFiles:
    """The files of web servers that support range requests. It is used for metadata; the kernel itself reads the rows."""

    def open(self, url: str) -> HttpFile:
        """Open a file for reading.

        Raises
        ------
        Unsupported
            If the server does not report the size, or does not support range requests.
        """
        return HttpFile(url)

    def state(self, url: str) -> tuple[str, ...] | None:
        """The file's version from the response headers; None if they have none, or the file does not exist."""
        try:
            headers = _head(url)
        except Unsupported:
            return None
        tags = tuple(headers.get(name, "") for name in ("Content-Length", "Last-Modified", "ETag"))
        return tags if any(tags[1:]) else None


def _head(url: str) -> Any:
    import urllib.error
    import urllib.request

    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD")) as answer:
            return answer.headers
    except (OSError, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it holds the connection
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

        request = urllib.request.Request(self._url, headers={"Range": f"bytes={self._position}-{end - 1}"})
        with urllib.request.urlopen(request) as answer:
            if answer.status != 206:
                raise OSError(
                    f"{self._url}: requested bytes {self._position}-{end - 1}, but the server sent the whole file"
                )
            data: bytes = answer.read()
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
