"""Imports of pandas in user code give Craton, imports in libraries give pandas, and the hook can be uninstalled."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas
import pytest

import craton.pandas
from craton import accelerate

PYTHON = Path(craton.pandas.__file__).parents[2]


@pytest.fixture
def installed() -> Any:
    accelerate.install()
    yield
    accelerate.uninstall()


def run_in(code: str, name: str = "a_users_module", file: str = "/project/a_users_module.py") -> dict[str, Any]:
    """Run code as a module with this name and file, and return its globals."""
    namespace: dict[str, Any] = {"__name__": name, "__file__": file}
    exec(code, namespace)
    return namespace


@pytest.mark.usefixtures("installed")
class TestImports:
    @pytest.mark.parametrize(
        ("code", "expected"),
        [
            ("import pandas as it", craton.pandas),
            ("import pandas.testing\nit = pandas", craton.pandas),
            ("import pandas.api.types\nit = pandas", craton.pandas),
            ("import importlib\nit = importlib.import_module('pandas')", craton.pandas),
            ("it = __import__('pandas')", craton.pandas),
            ("from pandas import DataFrame as it", craton.pandas.DataFrame),
            ("from pandas import *\nit = DataFrame", craton.pandas.DataFrame),
            ("from pandas.core.frame import DataFrame as it", craton.pandas.DataFrame),
            ("from pandas.core.api import Series as it", craton.pandas.Series),
            ("from pandas.core.api import *\nit = Series", craton.pandas.Series),
            ("from pandas import read_parquet as it", craton.pandas.read_parquet),
            ("from pandas.io.api import read_parquet as it", craton.pandas.read_parquet),
        ],
    )
    def test_by_the_user(self, code: str, expected: Any) -> None:
        assert run_in(code)["it"] is expected

    @pytest.mark.parametrize(
        ("code", "name"),
        [
            ("import pandas.testing as it", "pandas.testing"),
            ("import pandas.api.types as it", "pandas.api.types"),
            ("from pandas import api as it", "pandas.api"),
            ("from pandas.core import frame as it", "pandas.core.frame"),
            ("import pandas._testing as it", "pandas._testing"),
            ("import importlib\nit = importlib.import_module('pandas.core.frame')", "pandas.core.frame"),
        ],
    )
    def test_submodules_are_pandas_own(self, code: str, name: str) -> None:
        assert run_in(code)["it"] is sys.modules[name]

    def test_what_craton_does_not_replace_is_pandas_own(self) -> None:
        assert run_in("from pandas import Timestamp as it")["it"] is pandas.Timestamp
        assert run_in("from pandas.core.dtypes.dtypes import CategoricalDtype as it")["it"] is pandas.CategoricalDtype

    @pytest.mark.parametrize(
        ("name", "file"),
        [
            ("sklearn.utils", str(Path(pytest.__file__).parents[1] / "sklearn" / "utils" / "__init__.py")),
            ("json", json.__file__),
            ("pandas.core.frame", "/elsewhere/pandas/core/frame.py"),
        ],
    )
    def test_by_a_library(self, name: str, file: str) -> None:
        code = (
            "import pandas\nimport importlib\nfrom pandas import DataFrame\nagain = importlib.import_module('pandas')"
        )
        namespace = run_in(code, name, file)
        assert namespace["pandas"] is namespace["again"] is sys.modules["pandas"]
        assert namespace["DataFrame"] is sys.modules["pandas"].DataFrame

    def test_warnings_of_a_module_name_the_line_that_imports_from_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "aged").mkdir()
        (tmp_path / "aged" / "__init__.py").write_text(
            "import warnings\ndef __getattr__(name):\n"
            "    if name != 'old':\n        raise AttributeError(name)\n"
            "    warnings.warn('old is deprecated', DeprecationWarning, stacklevel=2)\n    return 1\n"
        )
        monkeypatch.syspath_prepend(str(tmp_path))
        for code in ("from aged import old", "from pandas.api.typing import RollingGroupby"):
            with pytest.warns(DeprecationWarning, match="is deprecated") as caught:
                exec(compile(code, "/project/a_users_module.py", "exec"), {"__name__": "a_users_module"})
            assert {one.filename for one in caught} == {"/project/a_users_module.py"}

    def test_import_module_can_be_pickled(self) -> None:
        assert importlib.import_module.__name__ == "import_module"
        assert pickle.loads(pickle.dumps(importlib.import_module)) is importlib.import_module

    def test_a_name_that_is_missing_says_so(self) -> None:
        with pytest.raises(ImportError, match="nothing_like_it"):
            run_in("from pandas import nothing_like_it")
        with pytest.raises(ModuleNotFoundError, match=r"No module named 'pandas\.nothing'"):
            run_in("import pandas.nothing")

    def test_a_module_whose_name_only_begins_alike(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "pandasaurus.py").write_text("size = 3")
        monkeypatch.syspath_prepend(str(tmp_path))
        assert run_in("import pandasaurus as it")["it"].size == 3

    def test_relative_imports_are_left_alone(self) -> None:
        code = "from .pandas import DataFrame as it"
        namespace: dict[str, Any] = {"__name__": "craton.somewhere", "__package__": "craton"}
        exec(code, namespace)
        assert namespace["it"] is craton.pandas.DataFrame


@pytest.mark.parametrize("module", ["craton.pandas", "pandas"])
def test_a_star_gives_all_names_of_pandas(module: str) -> None:
    names: dict[str, Any] = {"__name__": "a_users_module"}
    craton.install()
    try:
        exec(f"from {module} import *", names)
    finally:
        craton.uninstall()
    assert set(pandas.__all__) <= set(names)
    assert names["DataFrame"] is craton.pandas.DataFrame
    assert names["Timestamp"] is pandas.Timestamp
    assert names["concat"] is craton.pandas.concat


def test_modules_loaded_before_are_rebound_and_given_back() -> None:
    module = ModuleType("a_users_module")
    module.__file__ = "/project/a_users_module.py"
    exec("import pandas as pd\nfrom pandas import DataFrame, Timestamp\nheld = [DataFrame]", vars(module))
    sys.modules["a_users_module"] = module
    try:
        before = dict(vars(module))
        accelerate.install()
        held = dict(vars(module))
        accelerate.uninstall()
        assert held["pd"] is craton.pandas
        assert held["DataFrame"] is craton.pandas.DataFrame
        assert held["Timestamp"] is before["Timestamp"]
        assert held["held"] == [before["DataFrame"]]
        assert vars(module) == before
    finally:
        accelerate.uninstall()
        del sys.modules["a_users_module"]


def test_a_module_that_imported_craton_itself_keeps_it() -> None:
    module = ModuleType("a_users_module")
    module.__file__ = "/project/a_users_module.py"
    exec("import craton.pandas as pd\nfrom craton.pandas import DataFrame", vars(module))
    sys.modules["a_users_module"] = module
    try:
        accelerate.install()
        accelerate.uninstall()
        assert vars(module)["pd"] is craton.pandas
        assert vars(module)["DataFrame"] is craton.pandas.DataFrame
    finally:
        del sys.modules["a_users_module"]


def test_installing_twice_and_uninstalling_once() -> None:
    import builtins

    before = (builtins.__import__, importlib.import_module)
    accelerate.install()
    accelerate.install()
    assert accelerate.installed()
    accelerate.uninstall()
    assert not accelerate.installed()
    assert (builtins.__import__, importlib.import_module) == before
    accelerate.uninstall()


def test_a_hook_that_somebody_wrapped_goes_quiet() -> None:
    import builtins

    before = builtins.__import__
    accelerate.install()
    ours = builtins.__import__

    def theirs(*args: Any, **kwargs: Any) -> Any:
        return ours(*args, **kwargs)

    builtins.__import__ = theirs
    try:
        accelerate.uninstall()
        assert builtins.__import__ is theirs
        assert run_in("import pandas as it")["it"] is sys.modules["pandas"]
    finally:
        builtins.__import__ = before


def test_include_and_exclude() -> None:
    site = str(Path(pytest.__file__).parents[1] / "somelib" / "part.py")
    accelerate.install(include=["somelib"], exclude=["mine"])
    try:
        assert run_in("import pandas as it", "somelib.part", site)["it"] is craton.pandas
        assert run_in("import pandas as it", "mine", "/project/mine.py")["it"] is sys.modules["pandas"]
    finally:
        accelerate.uninstall()


# python -m craton ---------------------------------------------------------------------------------------


def python(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(PYTHON), "PYTHONWARNINGS": "error"}
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment | options.pop("env", {}),
        **options,
    )


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    def write(code: str) -> str:
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(code))
        return str(path)

    return write


WHO = """
import json, sys
import pandas as pd
main = sys.modules["__main__"]
print(json.dumps({
    "pandas": pd.__name__, "name": __name__, "file": globals().get("__file__"), "argv": sys.argv,
    "path": sys.path[0], "main": vars(main) is globals(), "spec": __spec__ and __spec__.name,
    "cached": globals().get("__cached__"), "loader": type(globals().get("__loader__")).__name__, "doc": __doc__,
}))
"""


def told(*arguments: str, **options: Any) -> dict[str, Any]:
    done = python(*arguments, **options)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


class TestCommand:
    """Each program runs under ``python`` and under ``python -m craton``; only the pandas that it imports may differ."""

    def same_but_pandas(self, *arguments: str, **options: Any) -> None:
        plain, ours = told(*arguments, **options), told("-m", "craton", *arguments, **options)
        assert (plain.pop("pandas"), ours.pop("pandas")) == ("pandas", "craton.pandas")
        assert ours == plain

    def test_a_script(self, script: Callable[[str], str]) -> None:
        self.same_but_pandas(script(f'"""What it is."""\n{WHO}'), "--profile", "-m", "x")

    def test_a_script_through_a_link_in_another_directory(self, script: Callable[[str], str], tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        link = tmp_path / "elsewhere" / "link.py"
        link.symlink_to(script(WHO))
        self.same_but_pandas("link.py", cwd=link.parent)

    def test_a_module(self, script: Callable[[str], str]) -> None:
        self.same_but_pandas("-m", "program", "a", "--b", cwd=Path(script(WHO)).parent)

    def test_a_package(self, tmp_path: Path) -> None:
        (tmp_path / "package").mkdir()
        (tmp_path / "package" / "__init__.py").touch()
        (tmp_path / "package" / "__main__.py").write_text(WHO)
        self.same_but_pandas("-m", "package", "a", cwd=tmp_path)

    def test_a_directory(self, tmp_path: Path) -> None:
        (tmp_path / "__main__.py").write_text(WHO)
        self.same_but_pandas(str(tmp_path), "a")

    def test_code(self) -> None:
        plain, ours = told("-c", WHO, "a", "-b"), told("-m", "craton", "-c", WHO, "a", "-b")
        assert ours.pop("pandas") == "craton.pandas"
        assert plain.pop("pandas") == "pandas"
        assert {plain.pop("loader"), ours.pop("loader")} <= {"NoneType", "type"}
        assert ours == plain

    def test_standard_input(self) -> None:
        done = python("-m", "craton", "-", "a", input="import sys, pandas\nprint(pandas.__name__, sys.argv)")
        assert done.stdout == "craton.pandas ['-', 'a']\n"

    @pytest.mark.parametrize(
        "code",
        [
            "def f():\n    raise ValueError('mine')\nf()",
            "import pandas\npandas.DataFrame({'a': [1]})['b']",
            "this is no Python",
            "import sys\nsys.exit('a message')",
            "import sys\nsys.exit(7)",
            "raise SystemExit",
            "import sys\nsys.excepthook = lambda *error: print('hook', error[0].__name__)\n1 / 0",
            "import atexit\natexit.register(print, 'at exit')\n1 / 0",
        ],
    )
    def test_how_it_ends(self, script: Callable[[str], str], code: str) -> None:
        path = script(code)
        plain, ours = python(path), python("-m", "craton", path)
        assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout)
        if "pandas" in code:  # the traceback between the user's line and the exception may differ
            assert ours.stderr.splitlines()[:3] == plain.stderr.splitlines()[:3]
            assert ours.stderr.splitlines()[-1] == plain.stderr.splitlines()[-1]
        else:
            assert ours.stderr == plain.stderr

    @pytest.mark.parametrize("arguments", [("no_such_file.py",), ("-m", "no_such_module")])
    def test_a_program_that_is_missing(self, arguments: tuple[str, ...], tmp_path: Path) -> None:
        plain, ours = python(*arguments, cwd=tmp_path), python("-m", "craton", *arguments, cwd=tmp_path)
        assert (ours.returncode, ours.stderr) == (plain.returncode, plain.stderr)

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            ((), "no program was given"),
            (("--profile",), "no program was given"),
            (("-m",), "-m needs a value"),
            (("--nothing", "x.py"), "unknown option --nothing"),
        ],
    )
    def test_a_command_line_that_is_wrong(self, arguments: tuple[str, ...], text: str) -> None:
        done = python("-m", "craton", *arguments)
        assert done.returncode == 2
        assert text in done.stderr
        assert "usage: python -m craton" in done.stderr

    def test_an_interrupt_ends_it_as_it_ends_python(self, script: Callable[[str], str]) -> None:
        path = script("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nwhile True: pass")
        plain, ours = python(path), python("-m", "craton", path)
        assert ours.returncode == plain.returncode == -signal.SIGINT
        assert "KeyboardInterrupt" in ours.stderr

    def test_the_program_finds_modules_beside_it_and_they_get_craton(
        self, script: Callable[[str], str], tmp_path: Path
    ) -> None:
        (tmp_path / "beside.py").write_text("import pandas\nname = pandas.__name__")
        done = python("-m", "craton", script("import beside\nprint(beside.name)"))
        assert done.stdout == "craton.pandas\n"

    @pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
    def test_worker_processes_get_craton_too(self, script: Callable[[str], str], method: str) -> None:
        if method not in __import__("multiprocessing").get_all_start_methods():
            pytest.skip(f"this platform has no {method}")
        path = script(f"""
            import multiprocessing
            import pandas as pd

            def name(_):
                return pd.__name__

            if __name__ == "__main__":
                with multiprocessing.get_context({method!r}).Pool(1) as pool:
                    print(pool.map(name, [0]))
        """)
        done = python("-m", "craton", path, env={"PYTHONWARNINGS": "default"})
        assert done.stdout == "['craton.pandas']\n", done.stderr

    def test_pytest_runs_under_it(self, tmp_path: Path) -> None:
        (tmp_path / "test_mine.py").write_text(
            "import pandas\n"
            "def test_it():\n"
            "    import pandas as pd\n"
            "    assert pd is pandas\n"
            "    assert pd.__name__ == 'craton.pandas'\n"
        )
        for command in (("-m", "craton", "-m", "pytest"), ("-m", "pytest", "-p", "craton.accelerate.pytest_plugin")):
            done = python(*command, "-q", "-p", "no:cacheprovider", cwd=tmp_path, env={"PYTHONWARNINGS": "default"})
            assert done.returncode == 0, done.stdout


# Notebooks ----------------------------------------------------------------------------------------------


def in_ipython(*cells: str) -> str:
    code = f"""
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in {list(cells)!r}:
    shell.run_cell(cell).raise_error()
"""
    done = python("-c", code, env={"PYTHONWARNINGS": "default", "IPYTHONDIR": os.devnull})
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def test_the_notebook_extension() -> None:
    out = in_ipython(
        "import pandas as before",
        "%load_ext craton",
        "import pandas as after\nprint(before.__name__, after.__name__)",
        "%unload_ext craton",
        "import pandas as later\nprint(before.__name__, later.__name__)",
    )
    assert out.splitlines()[-2:] == ["craton.pandas craton.pandas", "pandas pandas"]


def test_the_profile_magic() -> None:
    out = in_ipython(
        "%load_ext craton",
        "import craton, pandas as pd\ncraton.options.small_rows = 0",
        "%%craton.profile\nx = pd.DataFrame({'a': [1, 2]})\ny = x[x['a'] > 1]\nprint('ran', len(y))",
    )
    assert "ran 1" in out
    assert "Craton profile:" in out
    assert "DataFrame." in out


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    "code",
    [
        "pd.Index([1, 2]).to_series()",
        "pd.date_range('2024', periods=2).to_series()",
        "pd.DataFrame({'a': [1]}).index.to_frame()",
        "pd.MultiIndex.from_tuples([(1, 2)]).to_frame()",
        "pd.CategoricalIndex(['a', 'a']).value_counts()",
        "pd.Index(['a1']).str.extract('([a-z])')",
        "pd.Index(['a1']).str.extractall('([a-z])')",
    ],
)
def test_what_row_labels_make(code: str) -> None:
    made = run_in(f"import pandas as pd\nit = {code}")["it"]
    assert type(made) in (craton.pandas.Series, craton.pandas.DataFrame)
    pandas.testing.assert_index_equal(made.index, eval(code, {"pd": pandas}).index)
    kept = run_in("import pandas as pd\nidx = pd.Index([1, 2], name='a')\nit = idx.to_frame(name='x')")
    assert kept["it"].index is kept["idx"]
    theirs = run_in("import pandas as pd\nit = pd.Index([1]).to_series()", "a_library", pandas.__file__)["it"]
    assert type(theirs) is pandas.Series
    accelerate.uninstall()
    assert type(pandas.Index([1]).to_series()) is pandas.Series
    assert "to_series" in vars(pandas.Index)
    assert "value_counts" not in vars(pandas.Index)
