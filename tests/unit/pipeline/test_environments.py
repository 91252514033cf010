"""Steps with packages of their own, installed from local wheels."""

from __future__ import annotations

import base64
import hashlib
import threading
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sandboxed import Steps, needs_linux

from craton.pipeline import environments, preload
from craton.pipeline.tasks import Setting

pytestmark = needs_linux


def wheel(folder: Path, version: str, requires: str = "") -> str:
    """Write a wheel of a package with one module; return a requirement for it."""
    path = folder / f"stepper-{version}-py3-none-any.whl"
    info = f"stepper-{version}.dist-info"
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    files = {
        "stepper.py": f"VERSION = {version!r}\ndef double(x):\n    return x * 2\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: stepper\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()},{len(text)}\n"
        for name, text in files.items()
    )
    with zipfile.ZipFile(path, "w") as file:
        for name, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            file.writestr(name, text)
    return f"stepper @ {path.as_uri()}"


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_OFFLINE", "1")


def test_packages_of_a_step(steps: Steps, tmp_path: Path) -> None:
    def uses(frame: pd.DataFrame) -> pd.DataFrame:
        import stepper

        return frame.assign(y=stepper.double(frame["x"]), version=stepper.VERSION)

    def makes() -> pd.DataFrame:
        return pd.DataFrame({"x": np.arange(50_000)})

    first = Setting(packages=(wheel(tmp_path, "1.0"),))
    second = Setting(packages=(wheel(tmp_path, "2.5"),))
    made = steps.one(makes)
    for setting, version in ((first, "1.0"), (second, "2.5"), (first, "1.0")):
        outcome = steps.run(uses, {"frame": (made, "pandas")}, setting=setting)
        assert outcome.shared == 400_000
        table = outcome.outputs[None].pages.to_arrow()
        assert table["y"][-1].as_py() == 99_998
        assert table["version"][0].as_py() == version
    assert len(list(environments.folder().glob("*/complete"))) == 2
    error = steps.failing(uses, {"frame": (made, "pandas")})
    assert error.cause == "raised"
    assert "No module named 'stepper'" in error.message
    steps.sandboxes.forget(first)
    steps.sandboxes.forget(second)


def test_packages_that_do_not_install(steps: Steps, tmp_path: Path) -> None:
    def never() -> pa.Table:
        return pa.table({"n": [1]})

    missing = Setting(packages=("no-such-package-of-anybody==1.0",))
    needs = Setting(packages=(wheel(tmp_path, "3.0", "numpy<1"),))
    for setting, said in ((missing, "no-such-package-of-anybody"), (needs, "numpy")):
        for _ in range(2):  # nothing is remembered of the first
            error = steps.failing(never, setting=setting)
            assert error.cause == "environment"
            assert "do not install" in error.message
            assert said in error.message
            assert "numpy" in error.message or "matching" in error.message or "satisf" in error.message
    assert list(environments.folder().glob("*/complete")) == []
    with pytest.raises(environments.InstallationFailed):
        steps.sandboxes.warm(missing)
    steps.works()


def test_two_callers_share_an_installation(tmp_path: Path) -> None:
    packages = (wheel(tmp_path, "1.0"),)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(environments.python_with(packages))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert len(found) == 3
    assert len(list(environments.folder().glob("*/complete"))) == 1
    assert environments.python_with(packages) == found[0]


def test_wheels_have_the_allocator() -> None:
    root = Path(__file__).resolve().parents[3]
    (included,) = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["maturin"]["include"]
    assert included["format"] == "wheel"
    assert (root / included["path"]).name == preload.LIBRARY.name
    assert "cargo build --release -p craton-preload" in (root / "Makefile").read_text()
