"""Each word of the glossary has one meaning: its class or module exists, and no other class has the same name."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

import pytest
from tracked import ROOT, texts

_ROW = re.compile(r"^\| (?P<word>[^|]+) \| (?P<defined>[^|]+) \| (?P<meaning>[^|]+) \|$")
_CLASS = re.compile(r"^(?:`(?P<name>\w+)` in|module) `(?P<path>[^`]+)`")
_DEFINITION = {
    ".py": r"^(?:class {name}\b|{name}\s*(?::[^=\n]+)?=)",
    ".pyi": r"^class {name}\b",
    ".rs": r"^\s*pub(?:\([^)]*\))? (?:struct|enum|trait|type) {name}\b",
}


def rows() -> list[tuple[str, str, str]]:
    """The word, the definition's location, and the meaning in each row of the tables."""
    lines = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines()
    found = [match.group("word", "defined", "meaning") for line in lines if (match := _ROW.match(line))]
    return [row for row in found if row[0] not in ("word", "---")]


ROWS = rows()


def defined_by(text: str) -> tuple[str | None, str]:
    """The class, if any, and the file that define a word."""
    match = _CLASS.match(text)
    assert match is not None, f"expected a class in a file, or a module: {text}"
    return match["name"], match["path"]


@pytest.mark.parametrize(("word", "defined"), [row[:2] for row in ROWS], ids=[row[0] for row in ROWS])
def test_what_defines_a_word_exists(word: str, defined: str) -> None:
    name, path = defined_by(defined)
    file = ROOT / path
    assert file.is_file(), f"{word}: there is no {path}"
    if name is not None:
        pattern = _DEFINITION[file.suffix].format(name=name)
        assert re.search(pattern, file.read_text(encoding="utf-8"), re.MULTILINE), f"{word}: no {name} in {path}"


def test_a_word_has_one_row() -> None:
    words = [word.lower() for word, _, _ in ROWS]
    assert sorted({word for word in words if words.count(word) > 1}) == []
    assert len(words) > 60


def test_the_classes_of_words_have_names_of_their_own() -> None:
    places = defaultdict(set)
    for path, text in texts(".py"):
        if path.startswith("python/craton/"):
            for node in ast.parse(text).body:
                if isinstance(node, ast.ClassDef):
                    places[node.name].add(path)
    names = {name for _, defined, _ in ROWS if (name := defined_by(defined)[0]) is not None}
    assert {name: sorted(places[name]) for name in names if len(places[name]) > 1} == {}
