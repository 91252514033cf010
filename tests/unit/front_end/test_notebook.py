"""In a notebook: completion of names, columns and labels, plans as text of several lines, and profiles of cells."""

from __future__ import annotations

from collections.abc import Iterator

import pandas
import pytest

import craton
import craton.pandas as pd

pytest.importorskip("IPython")

from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

OWN = {"from_arrow", "from_polars", "read_set", "persist", "unpersist"}


@pytest.fixture(scope="module")
def shell() -> Iterator[InteractiveShell]:
    shell = InteractiveShell.instance()
    shell.history_manager.enabled = False
    yield shell
    InteractiveShell.clear_instance()


def completed(shell: InteractiveShell, module: object, text: str, jedi: bool) -> set[str]:
    frame = module.DataFrame({"alpha": [1, 2], "beta": ["x", "y"]})  # type: ignore[attr-defined]
    frame = frame[frame["alpha"] > 0]
    names = {"pd": module, "x": frame, "z": frame.set_index("beta"), "g": frame.groupby("alpha")}
    shell.user_ns.update(names)
    shell.Completer.use_jedi = jedi
    with provisionalcompleter():
        return {one.text.lstrip(".") for one in shell.Completer.completions(text, len(text))}


@pytest.mark.parametrize("jedi", [True, False])
@pytest.mark.parametrize(
    "text", ["pd.", "pd.re", "pd.DataFrame.", "x.", "x.al", "x['", "x.beta.str.", "z.loc['", "x.loc[:, '", "g."]
)
def test_completion_is_that_of_pandas(shell: InteractiveShell, text: str, jedi: bool) -> None:
    with craton.option_context(small_rows=0):
        expected, got = completed(shell, pandas, text, jedi), completed(shell, pd, text, jedi)
    assert expected - got == set()
    assert got - expected - OWN <= {"exclusions"}  # an attribute of pandas' group-by that pandas does not list


def test_the_names_of_the_module() -> None:
    assert set(dir(pd)) == set(dir(pandas)) | {"from_arrow", "from_polars", "read_set"}
    assert all(hasattr(pd, name) for name in dir(pd))


def test_texts_of_objects_are_evaluated_with_the_names_of_the_module() -> None:
    for one in (pandas.RangeIndex(3), pandas.Timestamp("2024-01-01"), pandas.Interval(0, 1), pandas.Index([1.5])):
        assert repr(eval(repr(one), dict(vars(pd)))) == repr(one)
    assert vars(pd)["DataFrame"] is pd.DataFrame
    assert vars(pd)["date_range"] is pandas.date_range


@pytest.mark.parametrize("stage", ["optimized", "logical", "lowered", "analyzed"])
def test_a_plan_is_shown_as_lines(shell: InteractiveShell, stage: str) -> None:
    with craton.option_context(small_rows=0):
        frame = pd.DataFrame({"a": [1, 2]})
        text = craton.explain(frame[frame["a"] > 1], stage=stage)
    assert isinstance(text, str)
    assert "\n" in text
    assert shell.display_formatter.format(text)[0]["text/plain"] == str(text) == repr(text)


def test_a_profile_names_cells_and_their_lines(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    from craton.accelerate import load_ipython_extension, unload_ipython_extension

    load_ipython_extension(shell)
    try:
        with craton.option_context(small_rows=0):
            shell.run_cell(
                "import craton, craton.pandas as pd\nx = pd.DataFrame({'a': [1, 2]})", store_history=True
            ).raise_error()
            number = shell.execution_count
            cell = "%%craton.profile\n\ny = x[x['a'] > 1]\nlen(y)"
            shell.run_cell(cell, store_history=True).raise_error()
            text = capsys.readouterr().out
            assert f"In[{number}]:3" in text
            assert f"In[{number}]:4" in text
            shell.run_cell("with craton.profile() as report:\n    len(x[x['a'] > 1])", store_history=True)
            assert set(shell.user_ns["report"].summary()["place"]) == {f"In[{number + 1}]:2"}
            assert shell.execution_count == number + 2
    finally:
        unload_ipython_extension(shell)
