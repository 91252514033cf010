"""Options are checked when they are set: in code, for a block, or by environment variables."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import textwrap
from typing import Any

import pytest

import craton
from craton.config import Options, available_memory, default_memory_limit, parse_bytes
from craton.engine.result_cache import most_memory


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("1000000", 1_000_000),
        ("500MB", 500_000_000),
        ("2GiB", 2 << 30),
        (" 1.5 gib ", 3 << 29),
        ("7k", 7_000),
        ("1 TiB", 1 << 40),
    ],
)
@pytest.mark.parametrize("name", ["memory_limit", "result_memory"])
def test_bytes_as_people_write_them(name: str, text: str, expected: int) -> None:
    before = getattr(craton.options, name)
    with craton.option_context(**{name: text}):
        assert getattr(craton.options, name) == expected
    assert getattr(craton.options, name) == before
    assert parse_bytes(text) == expected


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("memory_limit", "plenty", "'plenty' is not a number of bytes"),
        ("memory_limit", "-1", "'-1' is not a number of bytes"),
        ("memory_limit", "1e9", "'1e9' is not a number of bytes"),
        ("memory_limit", -1, "bytes, as a whole number"),
        ("memory_limit", 1.5, "bytes, as a whole number"),
        ("result_memory", True, "bytes, as a whole number"),
        ("small_rows", "1000", "a whole number, 0 or more, not '1000'"),
        ("small_rows", 1.5, "a whole number"),
        ("fallback", "shout", "not 'shout'"),
    ],
)
def test_what_is_refused(name: str, value: Any, said: str) -> None:
    options = Options()
    before = getattr(options, name)
    with pytest.raises(ValueError, match=f"option {name}.*{said}"):
        setattr(options, name, value)
    assert getattr(options, name) == before
    with pytest.raises(ValueError, match=said), craton.option_context(**{name: value}):
        pass


def test_an_unknown_option() -> None:
    with pytest.raises(AttributeError, match="memory_limits"):
        Options().memory_limits = 3  # type: ignore[attr-defined]


def started(**environment: str) -> subprocess.CompletedProcess[str]:
    code = "from craton import options as o; print(o.memory_limit, o.result_memory, o.small_rows, o.fallback)"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CRATON_")}
    return subprocess.run(
        [sys.executable, "-c", code], env=kept | environment, capture_output=True, text=True, timeout=120
    )


def test_the_environment() -> None:
    run = started(
        CRATON_MEMORY_LIMIT="2GiB", CRATON_RESULT_MEMORY="1000", CRATON_SMALL_ROWS="7", CRATON_FALLBACK="warn"
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == [str(2 << 30), "1000", "7", "warn"]


def test_an_empty_variable_sets_nothing() -> None:
    options = Options()
    run = started(CRATON_MEMORY_LIMIT="", CRATON_FALLBACK="")
    assert run.returncode == 0, run.stderr
    assert run.stdout.split()[1:] == [str(options.result_memory), str(options.small_rows), options.fallback]


@pytest.mark.parametrize(
    ("variable", "value"),
    [("CRATON_MEMORY_LIMIT", "plenty"), ("CRATON_SMALL_ROWS", "2GiB"), ("CRATON_FALLBACK", "shout")],
)
def test_what_the_environment_cannot_say(variable: str, value: str) -> None:
    run = started(**{variable: value})
    assert run.returncode == 1
    assert f"ValueError: {variable}={value!r} in the environment: option " in run.stderr


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/a/b\n", {"/sys/fs/cgroup/a/b/memory.max": "max\n", "/sys/fs/cgroup/a/memory.max": "5000\n"}, 5000),
        ("4:cpu,memory:/a\n0::/\n", {"/sys/fs/cgroup/memory/a/memory.limit_in_bytes": "7000\n"}, 7000),
        ("0::/hidden\n", {"/sys/fs/cgroup/memory.max": "9000\n"}, 9000),
        ("", {}, None),
    ],
)
def test_the_limits_of_all_groups_count(
    groups: str, files: dict[str, str], expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"/proc/self/cgroup": groups, **files}

    def opened(path: str, *_: Any) -> io.StringIO:
        if path not in known:
            raise FileNotFoundError(path)
        return io.StringIO(known[path])

    monkeypatch.setattr("builtins.open", opened)
    found = available_memory()
    monkeypatch.undo()
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert found == (machine if expected is None else expected)


@pytest.mark.parametrize(
    ("available", "limit"), [(1 << 30, (1 << 30) * 7 // 10), (450 << 20, 258 << 20), (200 << 20, 50 << 20), (0, 0)]
)
def test_the_default_memory_limit_leaves_room_for_the_interpreter(available: int, limit: int) -> None:
    assert default_memory_limit(available) == limit


@pytest.mark.parametrize(
    ("given", "conf"),
    [
        ({"CRATON_MEMORY_LIMIT": "512MiB"}, "dirty_decay_ms:0,muzzy_decay_ms:0,narenas:2"),
        ({"CRATON_MEMORY_LIMIT": "512MiB", "_RJEM_MALLOC_CONF": "narenas:1"}, "narenas:1"),
        ({"CRATON_MEMORY_LIMIT": "2GiB"}, ""),
        ({"CRATON_MEMORY_LIMIT": "8GiB"}, "dirty_decay_ms:10000,oversize_threshold:0"),
    ],
)
def test_the_kernel_keeps_what_it_frees_only_where_there_is_memory(given: dict[str, str], conf: str) -> None:
    program = """
        import os, sys, craton
        assert "polars" not in sys.modules
        print(os.environ.get("_RJEM_MALLOC_CONF", ""))
        import polars as pl
        def own():
            resident, shared = map(int, open("/proc/self/statm").read().split()[1:3])
            return (resident - shared) * os.sysconf("SC_PAGE_SIZE")
        pl.int_range(0, 100, eager=True)
        before = own()
        pl.int_range(0, 8_000_000, eager=True)
        print(own() - before < 32 << 20)
    """
    environment = {name: value for name, value in os.environ.items() if name != "_RJEM_MALLOC_CONF"}
    code = textwrap.dedent(program)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment | given, capture_output=True, text=True, check=True
    )
    said, back = done.stdout.split("\n")[:2]
    assert said == conf
    assert back == str("decay_ms:0" in conf)


def test_remembered_results_take_a_quarter_of_the_memory_limit() -> None:
    code = "from craton import options as o; print(o.memory_limit, o.result_memory)"
    limited = {**os.environ, "CRATON_MEMORY_LIMIT": "2GiB"}
    limited.pop("CRATON_RESULT_MEMORY", None)
    run = subprocess.run([sys.executable, "-c", code], env=limited, capture_output=True, text=True, check=True)
    assert run.stdout.split() == [str(2 << 30), str(1 << 29)]
    limited["CRATON_RESULT_MEMORY"] = "100MB"
    run = subprocess.run([sys.executable, "-c", code], env=limited, capture_output=True, text=True, check=True)
    assert run.stdout.split() == [str(2 << 30), "100000000"]


def test_remembered_results_take_at_most_half_of_the_memory_limit() -> None:
    with craton.option_context(memory_limit=1 << 30, result_memory=1 << 40):
        assert most_memory() == 1 << 29
