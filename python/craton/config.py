"""The user's options, which can be set in code, for a block, or in the environment.

``craton.options.small_rows = 0`` sets an option for the process; ``with craton.option_context(small_rows=0):`` for a block;
``CRATON_SMALL_ROWS=0`` in the environment before the program starts. Values are validated when they are set. Options in bytes
also accept a text such as ``"2GiB"``; reading them always returns a number.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import unquote


@dataclass(slots=True)
class Options:
    """Process-wide options.

    Attributes
    ----------
    small_rows : int
        In-memory frames of at most this many rows stay in plain pandas. Of larger ones, the calls that pandas computes in one pass run
        in pandas. 0 sends every frame and every call through the plan.
    fallback : {"silent", "warn", "error"}
        What happens when a call is not native: nothing, a warning, or an exception.
    result_memory : int
        Bytes of remembered results of earlier plans; by default a quarter of ``memory_limit``, and never more than half of it. Set as
        ``1 << 30`` or ``"1GiB"``.
    progress : {"auto", "on", "off"}
        Whether runs of over a second show a progress line: in a terminal or notebook, always, never.
    memory_limit : int
        Bytes for the pages of this process's store and for the plans and tasks that run beside them; see
        `default_memory_limit` for the default. Set as ``1 << 31`` or ``"2GiB"``. Read when the store is opened.
    decode_cache : {"auto", "on", "off"}
        Whether scans of files leave their decoded columns in the store: if the process is connected to a store, always, never.
    parallel_functions : bool
        Whether worker processes call Python functions that would run for long; ``1`` or ``0`` in the environment.
    reproducible : bool
        Whether aggregates of floats have the same bits in every run, with any number of threads, tiles and workers.
        Sums are then exact and rounded once, and take longer. Read when an aggregate is added to a plan, not when it is computed.
    tracebacks : {"short", "full"}
        Whether the tracebacks of errors leave out the frames of Craton's own code, or show them all.
    data : str
        The folder of durable sets (`craton.save`), or a URL in an object store, such as ``s3://bucket/sets``.
    data_options : Mapping
        The options of fsspec for the object store of ``data``, as pandas' ``storage_options``. Set as a mapping, or as its JSON text.
    data_places : tuple of str
        Folders on other disks or machines, over which sets with replicas can be spread (``craton.save(…, losses=1)``). Set as a sequence,
        or as text with the separator of ``PATH``.
    data_cache : str
        The folder of local copies of files that are read from an object store.
    data_cache_limit : int
        Bytes above which the copies that were not used for longest are removed; those that were used in the last hour stay.
    """

    small_rows: int = 100_000
    fallback: Literal["silent", "warn", "error"] = "silent"
    result_memory: int = dataclasses.field(default_factory=lambda: default_memory_limit(available_memory()) // 4)
    progress: Literal["auto", "on", "off"] = "auto"
    memory_limit: int = dataclasses.field(default_factory=lambda: default_memory_limit(available_memory()))
    decode_cache: Literal["auto", "on", "off"] = "auto"
    parallel_functions: bool = True
    reproducible: bool = False
    tracebacks: Literal["short", "full"] = "short"
    data: str = dataclasses.field(default_factory=lambda: default_data_folder())
    data_options: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)  # it may have passwords
    data_places: tuple[str, ...] = ()
    data_cache: str = dataclasses.field(default_factory=lambda: default_data_cache())
    data_cache_limit: int = 16 << 30

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, _validated(name, value))


_BYTES = ("result_memory", "memory_limit", "data_cache_limit")
_PATHS = ("data", "data_places", "data_cache")
_SWITCHES = ("parallel_functions", "reproducible")
_CHOICES = {
    "fallback": ("silent", "warn", "error"),
    "progress": ("auto", "on", "off"),
    "decode_cache": ("auto", "on", "off"),
    "tracebacks": ("short", "full"),
}


def default_data_folder() -> str:
    """The folder of durable sets in the user's folder of data."""
    home = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(home, "craton")


def default_data_cache() -> str:
    """The folder of local copies of files in object stores, in the user's folder of caches."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(home, "craton", "objects")


def default_memory_limit(available: int) -> int:
    """The default memory limit in bytes, which leaves room for the interpreter and its libraries.

    It is 70 % of `available`, or `available` less 192 MiB if that is smaller, and at least a quarter of `available`.
    """
    return max(min(available * 7 // 10, available - (192 << 20)), available // 4)


def available_memory() -> int:
    """Bytes of memory that this process may use: the machine's memory, or the smallest limit of its control groups."""
    total: int = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _limits():
        with contextlib.suppress(OSError, ValueError), open(path) as file:
            total = min(total, int(file.read()))
    return total


def _limits() -> Iterator[str]:
    """The files with the memory limits of this process's control groups (versions 1 and 2), innermost first."""
    groups = []
    with contextlib.suppress(OSError, ValueError), open("/proc/self/cgroup") as file:
        for line in file.read().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                groups.append(("/sys/fs/cgroup", path, "memory.max"))
            elif "memory" in controllers.split(","):
                groups.append(("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes"))
    # In a container the outer groups are hidden, and its own group is mounted at the root, whatever its path says.
    for root, path, name in groups:
        folder = path.strip("/")
        while folder:
            yield f"{root}/{folder}/{name}"
            folder = folder.rpartition("/")[0]
    yield "/sys/fs/cgroup/memory.max"
    yield "/sys/fs/cgroup/memory/memory.limit_in_bytes"


_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def parse_bytes(text: str) -> int:
    """Parse a number of bytes with an optional unit, as in ``"1.5 GiB"``, ``"500MB"`` or ``"1000"``.

    Raises
    ------
    ValueError
        If the text has another form.

    Examples
    --------
    >>> parse_bytes("1.5 GiB")
    1610612736
    """
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?i?)b?\s*", text.lower())
    if found is None or found[2] not in _UNITS:
        raise ValueError(f"{text!r} is not a number of bytes; use a form such as 1000000, 500MB or 1.5GiB")
    return round(float(found[1]) * _UNITS[found[2]])


def _validated(name: str, value: Any) -> Any:
    known = [field.name for field in dataclasses.fields(Options)]
    if name not in known:
        raise AttributeError(f"no option {name!r}; options are {known}")
    if name in _CHOICES:
        if value not in _CHOICES[name]:
            raise ValueError(f"option {name} is one of {_CHOICES[name]}, not {value!r}")
        return value
    if name in _VALIDATED:
        return _VALIDATED[name](name, value)
    if name in _SWITCHES:
        if isinstance(value, str) and value.lower() in ("true", "false", "on", "off"):
            return value.lower() in ("true", "on")
        if value not in (True, False):
            raise ValueError(f"option {name} is True or False, not {value!r}")
        return bool(value)
    if name in _BYTES and isinstance(value, str):
        try:
            return parse_bytes(value)
        except ValueError as error:
            raise ValueError(f"option {name}: {error}") from None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        kind = "bytes, as a whole number or as in '1.5GiB'" if name in _BYTES else "a whole number, 0 or more"
        raise ValueError(f"option {name} is {kind}, not {value!r}")
    return value


def _folders(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [one for one in value.split(os.pathsep) if one]
    if not isinstance(value, Sequence):
        raise ValueError(f"option {name} is a sequence of paths of folders, not {value!r}")
    return tuple(_folder(name, one) for one in value)


def _folder(name: str, value: Any) -> str:
    if not isinstance(value, str | os.PathLike) or not os.fspath(value) or "://" in os.fspath(value):
        what = "a sequence of paths of folders" if name == "data_places" else "the path of a folder"
        raise ValueError(f"option {name} is {what}, not {value!r}")
    return os.fspath(value)


_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*)://(?P<rest>.*)", re.DOTALL)


def _folder_or_url(name: str, value: Any) -> str:
    """The path of a folder, or the URL of one in an object store, without a slash at the end."""
    found = _URL.fullmatch(value) if isinstance(value, str) else None
    if found is not None and found["scheme"].lower() == "file":
        value, found = unquote(found["rest"]), None
    if found is None:
        try:
            return _folder(name, value)
        except ValueError:
            raise ValueError(f"option {name} is the path of a folder, or a URL of one, not {value!r}") from None
    if not found["rest"].strip("/"):
        raise ValueError(
            f"option {name} is the path of a folder, or a URL of one such as 's3://bucket/sets', not {value!r}"
        )
    return f"{found['scheme'].lower()}://{found['rest'].rstrip('/')}"


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        kind = f"of type {type(value).__name__}"  # the value may have a password
        raise ValueError(f"option {name} is a mapping of names to values, or its JSON text, not an object {kind}")
    return dict(value)


#: The functions that check options that are not numbers or choices.
_VALIDATED: dict[str, Callable[[str, Any], Any]] = {
    "data": _folder_or_url,
    "data_options": _mapping,
    "data_places": _folders,
    "data_cache": _folder,
}


def _from_environment() -> Options:
    """The options that the environment sets.

    Raises
    ------
    ValueError
        If a value is invalid; the message names the variable and the value.
    """
    result = Options()
    for field in dataclasses.fields(Options):
        variable = f"CRATON_{field.name.upper()}"
        text = os.environ.get(variable)
        if not text:
            continue
        value: str | int = text
        if field.name not in _CHOICES and field.name not in _PATHS:
            with contextlib.suppress(ValueError):  # a text with a unit is parsed when the option is set
                value = int(text)
        try:
            setattr(result, field.name, value)
        except ValueError as error:
            shown = variable if field.name == "data_options" else f"{variable}={text!r}"  # it may have a password
            raise ValueError(f"{shown} in the environment: {error}") from None
    if not os.environ.get("CRATON_RESULT_MEMORY"):
        result.result_memory = result.memory_limit // 4
    return result


options = _from_environment()


@contextlib.contextmanager
def option_context(**changes: Any) -> Iterator[Options]:
    """Set options for a block.

    Examples
    --------
    >>> import craton
    >>> with craton.option_context(small_rows=0):
    ...     craton.options.small_rows
    0
    """
    before = {name: getattr(options, name) for name in changes}
    try:
        for name, value in changes.items():
            setattr(options, name, value)
        yield options
    finally:
        for name, value in before.items():
            setattr(options, name, value)
