"""Runs the examples of a documentation page, and compares their output with the output on the page."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Runs the blocks as one program in one event loop, as `python -m asyncio` does, and prints the output of each block.
_PROGRAM = """
import ast, asyncio, contextlib, inspect, io, json, sys


async def main():
    printed, names = [], {"__name__": "__main__"}
    for number, block in enumerate(json.load(sys.stdin)):
        where = f"block {number} of " + sys.argv[1]
        with contextlib.redirect_stdout(io.StringIO()) as out:
            found = eval(compile(block, where, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
            if inspect.iscoroutine(found):
                await found
        printed.append(out.getvalue())
    print(json.dumps(printed))


asyncio.run(main())
"""


def same(expected: str, printed: str) -> bool:
    """Whether the output matches the page, on which … matches any text, and a space matches any white space."""
    pattern = r"\s+".join(re.escape(word).replace("…", ".*?") for word in expected.split())
    return re.fullmatch(rf"\s*{pattern}\s*", printed, re.S) is not None


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Return the environment variables of a reader with the package, without settings, and with `folder` as home."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CRATON_", "XDG_"))}
    path = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    return {**kept, "PYTHONPATH": path, "HOME": str(folder), **more}


def check(
    page: str,
    variables: dict[str, str],
    folder: Path,
    console: Callable[[str], None] | None = None,
    seconds: float = 120.0,
) -> None:
    """Run all examples of a page in order, and check that they print the output on the page.

    Parameters
    ----------
    page : str
        The name of the page in docs.
    variables : dict
        The environment variables.
    folder : Path
        The working directory.
    console : callable, optional
        A function that checks a block of shell commands.
    seconds : float
        The timeout of all examples together.
    """
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", text, re.M | re.S)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _PROGRAM, f"docs/{page}"],
        input=json.dumps([body for kind, body in blocks if kind == "python"]),
        env=variables,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = iter(json.loads(done.stdout))
    last = ""
    for kind, body in blocks:
        if kind == "python":
            assert not last.strip(), f"the page does not show this: {last}"
            last = next(printed)
        elif kind == "text":
            assert same(body, last), f"the page says:\n{body}\nprinted was:\n{last}"
            last = ""
        elif kind == "console" and console is not None:
            console(body)
    assert not last.strip(), f"the page does not show this: {last}"
