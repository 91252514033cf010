"""Every example of docs/actors.md runs, in order and in one event loop, and prints what the page says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", (ROOT / "docs" / "actors.md").read_text(encoding="utf-8"), re.M | re.S)
# Runs the blocks as one program, as `python -m asyncio` does, and prints what each printed.
PROGRAM = """
import ast, asyncio, contextlib, inspect, io, json, sys


async def main():
    printed, names = [], {"__name__": "__main__"}
    for number, block in enumerate(json.load(sys.stdin)):
        where = f"block {number} of docs/actors.md"
        with contextlib.redirect_stdout(io.StringIO()) as out:
            found = eval(compile(block, where, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
            if inspect.iscoroutine(found):
                await found
        printed.append(out.getvalue())
    print(json.dumps(printed))


asyncio.run(main())
"""


def same(expected: str, printed: str) -> bool:
    """Whether the page shows what was printed, where … stands for anything and one space for any number."""
    pattern = r"\s+".join(re.escape(word).replace("…", ".*?") for word in expected.split())
    return re.fullmatch(rf"\s*{pattern}\s*", printed, re.S) is not None


def test_the_guide(tmp_path: Path) -> None:
    path = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CRATON_", "XDG_"))}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        input=json.dumps([body for kind, body in BLOCKS if kind == "python"]),
        env={**kept, "PYTHONPATH": path, "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
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
    assert not last.strip(), f"the page does not show this: {last}"
