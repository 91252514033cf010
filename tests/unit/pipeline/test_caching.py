"""A step runs again if anything has changed that its result depends on, and only then."""

from __future__ import annotations

import functools
import importlib
import subprocess
import sys
import textwrap
import types
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import craton
from craton.pipeline import Input, Pipeline
from craton.pipeline.runs.cache import MOST_RESULTS, StepCache
from craton.pipeline.runs.fingerprint import Unknown, fingerprint
from craton.pipeline.runs.pickling import pickled_by_value
from craton.store import Store

NUMBERS = pa.table({"n": [1, 2, 3]})

#: Programs that define ``f``; each pair differs in what a call of f gives.
PAIRS = {
    "constant": ("def f(t): return 1", "def f(t): return 2"),
    "type of a constant": ("def f(t): return 1", "def f(t): return 1.0"),
    "boolean": ("def f(t): return 1", "def f(t): return True"),
    "sign of zero": ("def f(t): return 0.0", "def f(t): return -0.0"),
    "operator": ("def f(t): return t + 1", "def f(t): return t - 1"),
    "method": ("def f(t): return t.min()", "def f(t): return t.max()"),
    "default": ("def f(t, *, a=1): return a", "def f(t, *, a=2): return a"),
    "global": ("a = 1\ndef f(t): return a", "a = 2\ndef f(t): return a"),
    "list": ("a = [1]\ndef f(t): return a", "a = [2]\ndef f(t): return a"),
    "list or tuple": ("a = [1]\ndef f(t): return a", "a = (1,)\ndef f(t): return a"),
    "key": ("a = {1: 'x'}\ndef f(t): return a", "a = {2: 'x'}\ndef f(t): return a"),
    "order of keys": ("a = {1: 1, 2: 2}\ndef f(t): return list(a)", "a = {2: 2, 1: 1}\ndef f(t): return list(a)"),
    "set": ("a = {1, 2}\ndef f(t): return a", "a = {1, 3}\ndef f(t): return a"),
    "array": (
        "import numpy as np\na = np.arange(3)\ndef f(t): return a",
        "import numpy as np\na = np.arange(4)\ndef f(t): return a",
    ),
    "helper": ("def g(): return 1\ndef f(t): return g()", "def g(): return 2\ndef f(t): return g()"),
    "helper of a helper": (
        "def h(): return 1\ndef g(): return h()\ndef f(t): return g()",
        "def h(): return 2\ndef g(): return h()\ndef f(t): return g()",
    ),
    "inner function": (
        "def f(t):\n  def g(): return a\n  return g()\na = 1",
        "def f(t):\n  def g(): return a\n  return g()\na = 2",
    ),
    "closure": (
        "def make(a):\n  def f(t): return a\n  return f\nf = make(1)",
        "def make(a):\n  def f(t): return a\n  return f\nf = make(2)",
    ),
    "class": ("class A:\n  x = 1\ndef f(t): return A.x", "class A:\n  x = 2\ndef f(t): return A.x"),
    "method of a class": (
        "class A:\n  def g(self): return 1\ndef f(t): return A().g()",
        "class A:\n  def g(self): return 2\ndef f(t): return A().g()",
    ),
    "base class": (
        "class B:\n  x = 1\nclass A(B): pass\ndef f(t): return A.x",
        "class B:\n  x = 2\nclass A(B): pass\ndef f(t): return A.x",
    ),
    "lambda": ("g = lambda: 1\ndef f(t): return g()", "g = lambda: 2\ndef f(t): return g()"),
    "partial": (
        "import functools\ndef h(a): return a\ng = functools.partial(h, 1)\ndef f(t): return g()",
        "import functools\ndef h(a): return a\ng = functools.partial(h, 2)\ndef f(t): return g()",
    ),
    "cached function": (
        "import functools\n@functools.cache\ndef g(): return 1\ndef f(t): return g()",
        "import functools\n@functools.cache\ndef g(): return 2\ndef f(t): return g()",
    ),
    "wrapper": (
        "def w(k):\n  def g(t): return k\n  return g\ndef d(f): return lambda t: f(t) + 1\nf = d(w(1))",
        "def w(k):\n  def g(t): return k\n  return g\ndef d(f): return lambda t: f(t) + 2\nf = d(w(1))",
    ),
    "exception": (
        "def f(t):\n  try: return t\n  except ValueError: return 1",
        "def f(t):\n  try: return t\n  except KeyError: return 1",
    ),
    "text": ("def f(t): return t['a']", "def f(t): return t['b']"),
    "property": (
        "class A:\n  @property\n  def x(self): return 1\ndef f(t): return A().x",
        "class A:\n  @property\n  def x(self): return 2\ndef f(t): return A().x",
    ),
    "module attribute": ("import math\ndef f(t): return math.pi", "import math\ndef f(t): return math.e"),
}


def function_of(text: str) -> Any:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, "program", "exec", dont_inherit=True), names)
    return names["f"]


@pytest.mark.parametrize("name", PAIRS)
def test_functions_that_differ_have_different_hashes(name: str) -> None:
    one, other = PAIRS[name]
    assert fingerprint(function_of(one)) == fingerprint(function_of(one))
    assert fingerprint(function_of(one)) != fingerprint(function_of(other))
    assert fingerprint(function_of("\n\n# a comment\n" + one)) == fingerprint(function_of(one))


def test_hashes_are_the_same_in_another_process() -> None:
    programs = {name: one for name, (one, _) in PAIRS.items()}
    code = f"""
        from craton.pipeline.runs.fingerprint import fingerprint
        for text in {list(programs.values())!r}:
            names = {{"__name__": "__main__"}}
            exec(compile(text, "other", "exec"), names)
            print(fingerprint(names["f"]).hex())
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [fingerprint(function_of(one)).hex() for one in programs.values()]


def test_functions_that_refer_to_themselves_and_each_other() -> None:
    text = "def g(n): return f(n - 1) if n else 0\ndef f(n): return g(n) + f(0) if n else {}"
    hashes = [fingerprint(function_of(text.format(number))) for number in (1, 1, 2)]
    assert hashes[0] == hashes[1] != hashes[2]
    cycle: list[Any] = [1]
    cycle.append(cycle)
    assert fingerprint(cycle) == fingerprint(cycle)


def test_what_cannot_be_pickled_has_no_hash() -> None:
    with pytest.raises(Unknown, match="cannot be pickled"):
        fingerprint(one for one in ())


def test_modules_of_the_user_count_with_what_is_read_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "prices_of_test.py").write_text("rate = 2\nother = 1\ndef scaled(x): return x * rate\n")
    module = importlib.import_module("prices_of_test")
    function = function_of("import prices_of_test\ndef f(t): return prices_of_test.scaled(t)")
    before = fingerprint(function)
    module.other = 5  # type: ignore[attr-defined]
    assert fingerprint(function) == before
    module.rate = 3  # type: ignore[attr-defined]
    assert fingerprint(function) != before
    data = pickled_by_value(module.scaled)
    code = f"import cloudpickle; print(cloudpickle.loads({data!r})(7))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert ran.stdout == "21\n"  # the process cannot import the module, and has its current value


def test_modules_that_a_call_imports_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "late_of_test.py").write_text("def g(): return 1\n")
    package = tmp_path / "package_of_test"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text("def g(): return 1\n")
    late = function_of("def f(t):\n  import late_of_test\n  return late_of_test.g()")
    deep = function_of("def f(t):\n  from package_of_test.inner import g\n  return g()")
    before = fingerprint(late), fingerprint(deep)
    assert "late_of_test" not in sys.modules
    (tmp_path / "late_of_test.py").write_text("def g(): return 2\n")
    (package / "inner.py").write_text("def g(): return 2\n")
    after = fingerprint(late), fingerprint(deep)
    assert before[0] != after[0]
    assert before[1] != after[1]
    assert [late(None), deep(None)] == [2, 2]
    module: Any = sys.modules["package_of_test.inner"]
    loaded = fingerprint(deep)
    module.g = lambda: 3
    changed = fingerprint(deep)
    assert changed != loaded
    (package / "inner.py").write_text("def g(): return 4\n")
    assert fingerprint(deep) not in (changed, loaded)
    with pytest.raises(Unknown, match="which is not found"):
        fingerprint(function_of("def f(t):\n  import nowhere_of_test"))
    assert fingerprint(function_of("def f(t):\n  import json\n  return json.dumps(t)"))
    for name in ("late_of_test", "package_of_test", "package_of_test.inner"):
        monkeypatch.delitem(sys.modules, name)


def test_a_package_of_the_step_counts_even_if_it_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site-packages"
    package = site / "installed_of_test"
    package.mkdir(parents=True)
    monkeypatch.syspath_prepend(str(site))
    (package / "__init__.py").write_text("")
    (package / "helpers.py").write_text("def g(): return 1\n")
    (package / "steps.py").write_text("from installed_of_test import helpers\ndef f(t): return helpers.g()\n")
    module: Any = importlib.import_module("installed_of_test.steps")
    before = fingerprint(module.f)
    module.helpers.g = function_of("def f(): return 2")
    assert fingerprint(module.f) != before


def states(result: Any) -> dict[str, str]:
    return {one.name: one.state for one in result.records.values() if one.kind == "step"}


def test_a_step_runs_again_if_what_it_takes_has_changed(store: Store) -> None:
    calls: list[str] = []

    def build(factor: int, where: str, columns: list[str]) -> Pipeline:
        @craton.step
        def first(numbers: pa.Table, *, add: int = 0) -> pa.Table:
            return numbers.append_column("f", pa.array([n * factor + add for n in numbers["n"].to_pylist()]))

        @craton.step(inputs={"first": Input(where=where)})
        def second(first: pa.Table) -> pa.Table:
            return first

        @craton.step(inputs={"numbers": columns})
        def third(numbers: pa.Table) -> pa.Table:
            return numbers

        return Pipeline([first, second, third], sources={"numbers": NUMBERS})

    def run(factor: int = 1, where: str = "n > 1", columns: list[str] | None = None, **options: Any) -> list[str]:
        result = build(factor, where, columns or ["n"]).run(store=store, in_process=True, **options)
        assert result["first"]["f"].to_pylist() == [
            n * factor + options.get("parameters", {}).get("add", 0) for n in (1, 2, 3)
        ]
        return [name for name, state in states(result).items() if state == "ran"]

    assert calls == []
    assert run() == ["first", "second", "third"]
    assert run() == []
    assert run(factor=2) == ["first", "second"]
    assert run(where="n > 2") == ["second"]
    assert run() == []
    assert run(parameters={"add": 1}) == ["first", "second"]
    pipeline = build(1, "n > 1", ["n"])
    pipeline = Pipeline(
        [pipeline._graph.steps[name].function for name in ("first", "second", "third")],
        sources={"numbers": pa.table({"n": [1, 2, 4]})},
    )
    assert list(states(pipeline.run(store=store, in_process=True)).values()) == ["ran"] * 3


def test_what_is_not_cached_and_why(store: Store) -> None:
    generator = (one for one in ())

    @craton.step(cache=False)
    def fresh(numbers: pa.Table) -> pa.Table:
        return numbers

    @craton.step
    def after(fresh: pa.Table) -> pa.Table:
        return fresh

    @craton.step(source=True)
    def outside() -> pa.Table:
        return NUMBERS

    @craton.step(source=True, cache=True)
    def fixed() -> pa.Table:
        return NUMBERS

    @craton.step
    def captures(numbers: pa.Table) -> pa.Table:
        assert generator is not None
        return numbers

    pipeline = Pipeline([fresh, after, outside, fixed], sources={"numbers": NUMBERS})
    pipeline.run(store=store, in_process=True)
    result = pipeline.run(store=store, in_process=True)
    assert states(result) == {"fresh": "ran", "after": "ran", "outside": "ran", "fixed": "cached"}
    reasons = result.steps["reason"].to_dict()
    assert (reasons["fresh"], reasons["after"], reasons["outside"]) == (
        "cache=False",
        "'fresh' is not cached",
        "reads from elsewhere",
    )
    with pytest.raises(
        craton.pipeline.PipelineFailed, match="step 'captures': the function, or something that it refers to, cannot"
    ):
        Pipeline([captures], sources={"numbers": NUMBERS}).run(store=store, in_process=True)


def test_old_results_are_dropped_unless_they_are_in_use(store: Store) -> None:
    @craton.step
    def scaled(numbers: pa.Table, *, factor: int = 1) -> pa.Table:
        return pa.table({"n": np.array(numbers["n"]) * factor})

    pipeline = Pipeline([scaled], sources={"numbers": NUMBERS})

    def run(factor: int) -> Any:
        return pipeline.run(store=store, in_process=True, parameters={"factor": factor})

    run(1)
    held = run(1)  # its table is the one that is kept
    for factor in range(2, 10):
        run(factor)
    names = [name for name in store.describe()["name"] if name is not None and name.startswith("pipeline:scaled:")]
    assert len([name for name in names if name.count(":") == 2]) == MOST_RESULTS
    assert len(names) == 2 * MOST_RESULTS + 1
    assert held["scaled"]["n"].to_pylist() == [1, 2, 3]
    assert states(run(9)) == {"scaled": "cached"}
    del held
    run(10)
    names = [name for name in store.describe()["name"] if name is not None and name.startswith("pipeline:scaled:")]
    assert len(names) == 2 * MOST_RESULTS
    assert states(run(1)) == {"scaled": "ran"}


STATE = "state_of_test"


def test_a_result_that_is_forced_replaces_the_one_that_is_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = [1]

    @craton.step(source=True, cache=True)
    def read() -> pa.Table:
        return pa.table({"n": list(sys.modules[STATE].values)})

    module: Any = types.ModuleType(STATE)
    module.values = outside
    monkeypatch.setitem(sys.modules, STATE, module)
    pipeline = Pipeline([read])
    first = pipeline.run(store=store, in_process=True)
    outside.append(2)
    assert pipeline.run(store=store, in_process=True)["read"]["n"].to_pylist() == [1]
    assert pipeline.run(store=store, in_process=True, start="read")["read"]["n"].to_pylist() == [1, 2]
    assert pipeline.run(store=store, in_process=True)["read"]["n"].to_pylist() == [1, 2]
    assert first["read"]["n"].to_pylist() == [1]


def test_leftovers_of_a_writer_that_died_do_no_harm(store: Store) -> None:
    @craton.step
    def same(numbers: pa.Table) -> pa.Table:
        return numbers

    pipeline = Pipeline([same], sources={"numbers": NUMBERS})
    result = pipeline.run(store=store, in_process=True)
    cache = StepCache(store)
    key = bytes(16)
    store.create_set(f"pipeline:same:{key.hex()}:dead:0")
    assert cache.find("same", key) is None
    cache.keep("same", key, {None: result.stored("same")})
    found = cache.find("same", key)
    assert found is not None
    assert found[None].pages.to_arrow().equals(NUMBERS)
    assert f"pipeline:same:{key.hex()}:dead:0" not in store


def test_a_pandas_result_comes_back_from_the_cache_as_it_was(store: Store) -> None:
    frame = pd.DataFrame(
        {"x": [1.5, np.nan, -0.0], "o": [1, "a", None]}, index=pd.MultiIndex.from_tuples([(1, "a"), (1, "b"), (2, "a")])
    )
    frame.attrs["unit"] = "m"

    @craton.step
    def made(start: pd.DataFrame) -> pd.DataFrame:
        return start

    @functools.cache
    def pipeline() -> Pipeline:
        return Pipeline([made], sources={"start": frame})

    for state in ("ran", "cached"):
        result = pipeline().run(store=store, in_process=True)
        assert states(result) == {"made": state}
        found = result["made"]
        pd.testing.assert_frame_equal(found, frame)
        assert found.attrs == {"unit": "m"}
        found.loc[found.index[0], "x"] = 7.0
        assert result["made"]["x"].tolist()[0] == 1.5
