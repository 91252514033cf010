"""Rules that every file of the repository must follow."""

from __future__ import annotations

import re
import tomllib

import pytest
from tracked import ROOT, files, texts

SOURCES = {".py", ".pyi", ".rs"}
# Paths that exist on one machine only. The characters before the path exclude paths in URLs.
MACHINE_PATH = re.compile(r"(?:^|[\s\"'`=(\[<,:]|file://)/(?:root|work|home|Users|mnt|srv)/\w", re.MULTILINE)

# Package registries: users choose them when they install, so no file may name one.
REGISTRY = re.compile(
    r"pypi\.org|pythonhosted\.org|crates\.io|registry\.npmjs|proxy\.golang\.org|https?://\S+/simple\b"
    r"|^\s*(?:--)?(?:extra-)?index-url\b|^\s*(?:--)?find-links\b|(?:^|\s)file://",
    re.MULTILINE | re.IGNORECASE,
)


def test_files_are_found() -> None:
    names = {str(path.relative_to(ROOT)) for path in files()}
    assert {"Makefile", "pyproject.toml", "python/craton/__init__.py", "crates/py/src/lib.rs"} <= names


def test_no_module_is_called_utils() -> None:
    vague = {"utils", "util", "helpers", "misc", "common"}
    assert [path for path in files() if path.suffix in SOURCES and path.stem in vague] == []


def test_modules_say_what_they_are() -> None:
    opening = re.compile(r"\s*(?:#[^\n]*\n\s*)*r?(\"\"\"|''')")
    silent = [name for name, text in texts(".py") if text.strip() and not opening.match(text)]
    assert silent == []


@pytest.mark.parametrize(
    ("pattern", "what"), [(MACHINE_PATH, "a machine's path"), (REGISTRY, "a registry")], ids=["path", "registry"]
)
def test_nothing_names_a_machine_or_a_registry(pattern: re.Pattern[str], what: str) -> None:
    found = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match.group()!r}"
        for name, text in texts()
        for match in pattern.finditer(text)
    ]
    assert not found, f"these name {what}: {found}"


@pytest.mark.parametrize(
    ("text", "path", "registry"),
    [
        ("see " + "/ro" + "ot/x", True, False),
        ("'" + "/ho" + "me/me/x'", True, False),
        ("https://example.org/work/x", False, False),
        ("python/craton/plan", False, False),
        ("from https://py" + "pi.org/p", False, True),
        ("--index" + "-url https://x/y", False, True),
        ("source = " + "https://mirror.example/py/sim" + "ple/", False, True),
        ("x @ " + "file" + "://" + "/ro" + "ot/x.whl", True, True),
        ("a simple thing", False, False),
    ],
)
def test_the_patterns_see(text: str, path: bool, registry: bool) -> None:
    assert (bool(MACHINE_PATH.search(text)), bool(REGISTRY.search(text))) == (path, registry)


def test_links_between_documents_lead_somewhere() -> None:
    link = re.compile(r"\]\((?!https?://|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)")
    broken = [
        f"{name}: {match.group(1)}"
        for name, text in texts(".md")
        for match in link.finditer(text)
        if not (ROOT / name).parent.joinpath(match.group(1)).exists()
    ]
    assert broken == []


def test_documents_name_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {
        (name, target)
        for name, text in texts(".md", ".yml")
        for target in re.findall(r"(?:`|^|run: )make ([a-z][a-z-]*)", text, re.MULTILINE)
    }
    assert named, "the README tells how to run the tests"
    assert {pair for pair in named if pair[1] not in targets} == set()


def test_everything_needed_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = [
        line for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if line and line[0] != "#"
    ]
    assert [line for line in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[^\s;]+", line)] == []
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in pins}
    wanted = {
        re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0].lower()
        for text in [
            *project["dependencies"],
            *(text for extra in project["optional-dependencies"].values() for text in extra),
        ]
    }
    assert wanted - pinned == set(), "run `make constraints`"
    assert "craton" not in pinned


def test_rust_dependencies_are_pinned() -> None:
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["dependencies"]
    loose = [
        name
        for name, spec in workspace.items()
        if "path" not in spec and not (spec if isinstance(spec, str) else spec["version"]).startswith("=")
    ]
    assert loose == []
