"""Whether a module is user code or library code, which the accelerator, the profiler and warnings depend on."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Any

import numpy
import pandas
import pytest

import craton.pandas
from craton import callers

STDLIB = sysconfig.get_paths()["stdlib"]
SITE = sysconfig.get_paths()["purelib"]


@pytest.mark.parametrize(
    ("namespace", "user"),
    [
        ({"__name__": "__main__"}, True),
        ({"__name__": "__main__", "__file__": f"{SITE}/pytest/__main__.py"}, True),
        ({"__name__": "__mp_main__"}, True),
        ({}, True),
        ({"__name__": None}, True),
        ({"__name__": "report", "__file__": "/anywhere/report.py"}, True),
        ({"__name__": "seaborn.axisgrid", "__file__": f"{SITE}/seaborn/axisgrid.py"}, False),
        ({"__name__": "x", "__file__": "/env/lib/python3.13/site-packages/x.py"}, False),
        ({"__name__": "x", "__file__": "/usr/lib/python3/dist-packages/x.py"}, False),
        ({"__name__": "json", "__file__": f"{STDLIB}/json/__init__.py"}, False),
        ({"__name__": "importlib._bootstrap"}, False),
        ({"__name__": "pandas.core.frame", "__file__": "/elsewhere/pandas/core/frame.py"}, False),
        ({"__name__": "pandas.tests.frame.test_api", "__file__": f"{SITE}/pandas/tests/frame/test_api.py"}, True),
        ({"__name__": "pandas.testsuite", "__file__": "/elsewhere/pandas/testsuite.py"}, False),
        ({"__name__": "craton.plan", "__file__": "/editable/craton/plan/__init__.py"}, False),
        ({"__name__": "cratonic", "__file__": "/mine/cratonic.py"}, True),
        ({"__name__": ["unhashable"]}, True),
    ],
)
def test_whose_module(namespace: dict[str, Any], user: bool) -> None:
    assert callers.is_user(namespace) is user


def test_modules_that_are_loaded() -> None:
    assert callers.is_user(globals())
    for module in (pandas, numpy, pytest, craton.pandas, Path):
        assert not callers.is_user(
            vars(__import__(module.__name__)) if hasattr(module, "__path__") else {"__name__": "pathlib"}
        )


def test_names_can_be_included_and_excluded() -> None:
    mine = {"__name__": "mine.part", "__file__": "/mine/part.py"}
    library = {"__name__": "seaborn.axisgrid", "__file__": f"{SITE}/seaborn/axisgrid.py"}
    callers.configure(include=["seaborn"], exclude=["mine"])
    try:
        assert callers.is_user(library)
        assert not callers.is_user(mine)
        assert callers.is_user({"__name__": "mineral", "__file__": "/mineral.py"})
    finally:
        callers.configure()
    assert callers.is_user(mine)
    assert not callers.is_user(library)


def test_the_longer_name_decides() -> None:
    callers.configure(include=["mine.part"], exclude=["mine"])
    try:
        assert callers.is_user({"__name__": "mine.part.deep", "__file__": "/mine/part/deep.py"})
        assert not callers.is_user({"__name__": "mine.other", "__file__": "/mine/other.py"})
    finally:
        callers.configure()


def test_the_line_of_the_user_is_found_through_a_library() -> None:
    seen: list[callers.Location | None] = []
    pandas.Series([1]).map(lambda value: seen.append(_as_library(callers.user_location)))
    assert seen[0] is not None
    assert seen[0][0] == __file__


def _as_library(function: Any) -> Any:
    """Call a function from a module that counts as pandas' own."""
    namespace = {"__name__": "pandas.core.somewhere", "function": function}
    exec("result = function()", namespace)
    return namespace["result"]
