"""Every example of docs/store.md runs, in order, and prints what the page says."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import guides


def test_the_guide(tmp_path: Path) -> None:
    variables = guides.environment(tmp_path, XDG_RUNTIME_DIR=str(tmp_path), TMPDIR=str(tmp_path), COLUMNS="200")
    craton = [sys.executable, "-W", "error", "-m", "craton"]

    def console(body: str) -> None:
        for step in re.split(r"^\$ ", body, flags=re.M)[1:]:
            line, _, expected = step.partition("\n")
            arguments = shlex.split(line)
            assert arguments[:3] == ["python", "-m", "craton"]
            ran = subprocess.run(
                [*craton, *arguments[3:]],
                env=variables,
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=60,
                check=False,
            )
            assert guides.same(expected, ran.stdout), f"{line}\nthe page says:\n{expected}\nprinted was:\n{ran.stdout}"

    command = [*craton, "store", "serve", "--memory-limit", "256MiB"]
    with subprocess.Popen(command, env=variables, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == f"{tmp_path}/craton/store.sock\n"
            guides.check("store.md", variables, tmp_path, console)
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0
