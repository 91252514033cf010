"""The modules of a crate do not use each other in cycles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_structure import cycles
from tracked import files

CRATES = sorted(path.parent for path in files() if path.match("crates/*/Cargo.toml"))

Name = tuple[str, ...]


def modules(crate: Path) -> dict[Name, Path]:
    """The modules of a crate except its root, and their files."""
    found = {}
    for path in files():
        if path.suffix == ".rs" and path.is_relative_to(crate / "src"):
            parts = path.relative_to(crate / "src").with_suffix("").parts
            found[parts[:-1] if parts[-1] == "mod" else parts] = path
    return {name: path for name, path in found.items() if name not in ((), ("lib",), ("main",))}


def _paths(tree: str) -> Iterator[list[str]]:
    """The paths of a use tree: ``a::{b, c::d}`` gives ``a::b`` and ``a::c::d``."""
    head, brace, rest = tree.partition("{")
    if not brace:
        yield [part.strip() for part in tree.split(" as ")[0].split("::")]
        return
    depth, item = 0, ""
    for letter in rest.rpartition("}")[0] + ",":
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            if item.strip():
                yield from _paths(head.strip() + item.strip())
            item = ""
        else:
            item += letter


def used(name: Name, text: str, known: dict[Name, Path]) -> set[Name]:
    """The modules that a module uses outside of its tests, without its own children."""
    text = re.sub(r"//[^\n]*", "", text).partition("#[cfg(test)]")[0]
    paths = [path for tree in re.findall(r"\buse ([^;]+);", text) for path in _paths(tree)]
    paths += [path.split("::") for path in re.findall(r"\bcrate(?:::[a-z_]+)+", text)]
    found = set()
    for first, *rest in paths:
        if first == "crate":
            target = rest
        elif first in ("self", "super"):
            target = [*name] if first == "self" else [*name[:-1]]
            while rest and rest[0] == "super":
                target, rest = target[:-1], rest[1:]
            target += rest
        else:
            continue
        lengths = range(len(target), 0, -1)
        module = next((tuple(target[:n]) for n in lengths if tuple(target[:n]) in known), None)
        if module is not None and module[: len(name)] != name:
            found.add(module)
    return found


@pytest.mark.parametrize("crate", CRATES, ids=lambda crate: crate.name)
def test_no_module_reaches_itself(crate: Path) -> None:
    known = modules(crate)
    graph = {
        "::".join(name): {"::".join(other) for other in used(name, path.read_text(encoding="utf-8"), known)}
        for name, path in known.items()
    }
    assert cycles(graph) == []


def test_uses_are_found() -> None:
    known = {("a",): Path(), ("a", "b"): Path(), ("c",): Path(), ("d",): Path()}
    text = "use crate::{c::{self, X}, d};\nuse super::b::Y; // use crate::e;\nlet z = crate::a::b::f();"
    assert used(("a", "q"), text, known) == {("a", "b"), ("c",), ("d",)}
    assert used(("a",), "pub use self::b::Y;\n#[cfg(test)]\nuse crate::c;", known) == set()
