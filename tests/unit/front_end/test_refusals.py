"""Refusals: each is used and has a clear text of its own, and every reason that users see starts with one."""

from __future__ import annotations

import ast
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

from craton import fallbacks
from craton.errors import Unsupported
from craton.refusals import Reason, Refusal

PACKAGE = Path(fallbacks.__file__).parent

#: Words that do not identify what is not planned.
VAGUE = re.compile(
    r"\b(odd|unusual|other|another|strange|special|some|something|thing|things|certain|various|etc|options"
    r"|this kind|that kind|such|not native|unsupported)\b(?!\.\w)",
    re.IGNORECASE,
)


def sources() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def refused() -> Iterator[tuple[str, str, int]]:
    """Each use of a refusal: the line, the member, and the number of its arguments."""
    for path, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                member = node.args[0]
                if isinstance(member, ast.Attribute) and ast.unparse(member.value) == "Refusal":
                    yield f"{path.name}:{node.lineno}", member.attr, len(node.args) + len(node.keywords) - 1


def test_texts_are_distinct() -> None:
    texts = [member.value for member in Refusal.__members__.values()]
    assert len(set(texts)) == len(texts) == len(Refusal)  # members with equal texts would be one member
    assert len({text.lower() for text in texts}) == len(texts)


def faults(text: str) -> Iterator[str]:
    words = text.replace("{}", "")
    if found := VAGUE.search(text):
        yield f"{found[0]!r} does not tell what it is"
    if text != text.strip() or text.endswith((".", ":")):
        yield "it stands in the middle of a line"
    if text.count("{}") > 1 or "{" in words:
        yield "it has one field at most"
    if len(words.split()) < 2 and not text.endswith("{}"):
        yield "a bare word does not tell what about it"


def test_texts_name_what_is_not_planned() -> None:
    assert [(member.name, fault) for member in Refusal for fault in faults(member.value)] == []


def test_every_member_is_used() -> None:
    used = {member for _, member, _ in refused()}
    assert set(Refusal.__members__) - used == set()
    assert used - set(Refusal.__members__) == set()


def test_a_field_is_filled_and_only_a_field() -> None:
    wrong = [(place, member) for place, member, details in refused() if details != Refusal[member].value.count("{}")]
    assert wrong == []


def test_refusals_come_from_the_enumeration() -> None:
    """Every raised or counted reason starts with a member of the enumeration, never with a text of its own."""
    names = {"Unsupported", "UndecidedDtype", "Reason"}
    free = []
    for path, tree in sources():
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names):
                continue
            first = node.args[0] if node.args else None
            if not (isinstance(first, ast.Attribute) and ast.unparse(first).startswith(("Refusal.", "self.refusal"))):
                free.append(f"{path.name}:{node.lineno}")
    assert free == []


def test_a_reason_reads_as_a_sentence_part() -> None:
    assert str(Reason(Refusal.PARAMETER, "keep='some'")) == "the parameter keep='some'"
    assert str(Reason(Refusal.OBJECT_COLUMN, "'{}'")) == "Python objects in column '{}'"
    assert str(Unsupported(Refusal.NO_COLUMNS)) == "a frame without columns"


def test_a_refusal_can_be_pickled() -> None:
    told = pickle.loads(pickle.dumps(Unsupported(Refusal.PARAMETER, "limit")))
    assert (told.refusal, str(told)) == (Refusal.PARAMETER, "the parameter limit")


def test_undecided_is_a_refusal() -> None:
    from craton.pandas.groupby.functions import UndecidedDtype

    assert UndecidedDtype(Refusal.DTYPE_OF_DATA).reason == Reason(Refusal.DTYPE_OF_DATA)
