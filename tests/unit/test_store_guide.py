"""Every example of docs/store.md runs, in order, and prints what the page says."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", (ROOT / "docs" / "store.md").read_text(encoding="utf-8"), re.M | re.S)
# Runs the blocks as one program, and prints what each printed.
PROGRAM = """
import contextlib, io, json, sys
printed, names = [], {"__name__": "__main__"}
for number, block in enumerate(json.load(sys.stdin)):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(block, f"block {number} of docs/store.md", "exec"), names)
    printed.append(out.getvalue())
print(json.dumps(printed))
"""


def same(expected: str, printed: str) -> bool:
    """Whether the page shows what was printed, where … stands for anything and one space for any number."""
    pattern = r"\s+".join(re.escape(word).replace("…", ".*?") for word in expected.split())
    return re.fullmatch(rf"\s*{pattern}\s*", printed, re.S) is not None


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("guide")
    path = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CRATON_")}
    places = {name: str(folder) for name in ("XDG_RUNTIME_DIR", "TMPDIR", "HOME")}
    return {**kept, **places, "PYTHONPATH": path, "COLUMNS": "200"}


def test_the_guide(environment: dict[str, str]) -> None:
    craton = [sys.executable, "-W", "error", "-m", "craton"]
    folder = environment["TMPDIR"]
    command = [*craton, "store", "serve", "--memory-limit", "256MiB"]
    with subprocess.Popen(command, env=environment, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == f"{folder}/craton/store.sock\n"
            blocks = [body for kind, body in BLOCKS if kind == "python"]
            done = subprocess.run(
                [sys.executable, "-W", "error", "-c", PROGRAM],
                input=json.dumps(blocks),
                env=environment,
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=120,
            )
            assert done.returncode == 0, done.stderr
            printed = iter(json.loads(done.stdout))
            last = ""
            for kind, body in BLOCKS:
                if kind == "python":
                    assert not last.strip(), f"the page does not show this: {last}"
                    last = next(printed)
                elif kind == "text":
                    assert same(body, last), f"the page says:\n{body}\nprinted was:\n{last}"
                    last = ""
                elif kind == "console":
                    for step in re.split(r"^\$ ", body, flags=re.M)[1:]:
                        line, _, expected = step.partition("\n")
                        arguments = shlex.split(line)
                        assert arguments[:3] == ["python", "-m", "craton"]
                        ran = subprocess.run(
                            [*craton, *arguments[3:]],
                            env=environment,
                            cwd=folder,
                            stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT,
                            text=True,
                            timeout=60,
                        )
                        assert same(expected, ran.stdout), (
                            f"{line}\nthe page says:\n{expected}\nprinted was:\n{ran.stdout}"
                        )
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0
