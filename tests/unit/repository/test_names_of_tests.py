"""Names of tests are the same in every process: workers that run tests in parallel compare them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from tracked import texts


def _ordered_by_chance(node: ast.AST) -> bool:
    """Whether it is a set whose order depends on the seed of hashes, which each process has of its own; integers do not."""
    if isinstance(node, ast.Set):
        return len(node.elts) > 1 and not all(
            isinstance(one, ast.Constant) and type(one.value) is int for one in node.elts
        )
    return isinstance(node, ast.SetComp)


def _sets_in_names(name: str, source: str) -> Iterator[str]:
    """The sets among the values of `parametrize` whose texts become names of tests, as places in a file."""
    for call in ast.walk(ast.parse(source)):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            continue
        named_by_text = any(k.arg == "ids" and ast.unparse(k.value) in ("repr", "str") for k in call.keywords)
        if call.func.attr not in ("parametrize", "fixture") or not named_by_text:
            continue
        waiting: list[ast.AST] = [*call.args, *(k.value for k in call.keywords)]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Call) and any(k.arg == "id" for k in node.keywords):
                continue  # pytest.param gives the name itself
            if _ordered_by_chance(node):
                yield f"{name}:{node.lineno}"
            waiting.extend(ast.iter_child_nodes(node))


def test_no_name_depends_on_the_order_of_a_set() -> None:
    found = [
        place for name, source in texts(".py") if name.startswith("tests/") for place in _sets_in_names(name, source)
    ]
    assert found == [], "give these values a name with pytest.param(…, id=…)"


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ('[{"a", "b"}]', 1),
        ('[pytest.param({"a", "b"}, id="set")]', 0),
        ('[["a"], {"a"}, {"a": {1.5, 2}}]', 1),
        ("[{}]", 0),
    ],
)
def test_the_check_finds_sets(values: str, count: int) -> None:
    source = f"@pytest.mark.parametrize('v', {values}, ids=repr)\ndef test(v): pass\n"
    assert len(list(_sets_in_names("t.py", source))) == count
