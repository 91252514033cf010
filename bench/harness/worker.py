"""The worker process of a measurement: it opens one contestant and runs its cases on request.

Started as ``python -m bench.harness.worker MODULE CONTESTANT OPTIONS`` by the interpreter of the contestant's own
environment, so it uses only the standard library and `bench.harness.conditions`; MODULE imports the
contestant's packages. Requests are lines of JSON on standard input. Replies are lines of JSON on the original standard output
of the process; output of libraries is redirected to standard error, which the harness keeps as
the contestant's log.

A benchmark module has a function ``open_contestant(name, options)`` that returns a `Contestant`. If the contestant has a
method ``forget()``, the worker calls it before each run, untimed; the method drops cached results of earlier runs. If it has a
method ``parts()``, the reply has the seconds that it returns of the parts of the run, by name.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import platform
import signal
import sys
import time
import traceback
from typing import Any, Protocol, TextIO

from bench.harness import conditions

__all__ = ["Contestant", "main"]

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


class Contestant(Protocol):
    """The interface of a contestant, which a benchmark module implements."""

    def versions(self) -> dict[str, str]:
        """Return the versions of the packages that determine this contestant's speed, by name."""

    def run(self, case: str) -> Any:
        """Run one case and return its materialised result. This call is timed."""

    def answer(self, case: str, result: Any) -> Any:
        """Reduce a result to plain JSON values that can be compared between contestants. Not timed."""


def main(arguments: list[str]) -> int:
    """Serve requests until standard input ends or a stop request arrives.

    Parameters
    ----------
    arguments : list of str
        Name of the benchmark module, name of the contestant, options as a JSON object.
    """
    requests, replies = _take_standard_streams()
    _tie_processes()
    module_name, name, options = arguments[0], arguments[1], json.loads(arguments[2])
    environment = conditions.found()
    began = time.perf_counter()
    try:
        contestant: Contestant = importlib.import_module(module_name).open_contestant(name, options)
        opened = {
            "ok": True,
            "seconds": time.perf_counter() - began,
            "environment": environment,
            "threads": conditions.threads_found(),
            "versions": {"python": platform.python_version(), **contestant.versions()},
        }
    except BaseException as error:
        _reply(replies, _failure(error))
        return 1
    _reply(replies, opened)
    for line in requests:
        request = json.loads(line)
        if request["do"] == "stop":
            break
        try:
            reply = _run(contestant, request["case"], bool(request["answer"]))
        except Exception as error:
            reply = _failure(error)
        _reply(replies, reply)
    return 0


def _run(contestant: Contestant, case: str, with_answer: bool) -> dict[str, Any]:
    getattr(contestant, "forget", _nothing)()
    gc.collect()
    began = time.perf_counter()
    result = contestant.run(case)
    seconds = time.perf_counter() - began
    reply: dict[str, Any] = {"ok": True, "seconds": seconds}
    if hasattr(contestant, "parts"):
        reply["parts"] = contestant.parts()
    if with_answer:
        reply["answer"] = contestant.answer(case, result)
    return reply


def _nothing() -> None:
    pass


def _take_standard_streams() -> tuple[TextIO, TextIO]:
    """Return the pipes to the harness, and replace the standard streams.

    Programs that a contestant starts inherit an empty standard input, and the log as standard output.
    """
    requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, replies


def _tie_processes() -> None:
    """Make this process end with the harness, and become the parent of orphaned processes of the contestant.

    So the harness can list, measure and end all of them, and a paused worker does not outlive a harness that was killed.
    """
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _failure(error: BaseException) -> dict[str, Any]:
    traceback.print_exception(type(error), error, error.__traceback__)
    text = str(error).strip()
    return {
        "ok": False,
        "error": f"{type(error).__name__}: {text}" if text else type(error).__name__,
    }


def _reply(replies: TextIO, message: dict[str, Any]) -> None:
    replies.write(json.dumps(message) + "\n")
    replies.flush()


if __name__ == "__main__":
    # As __main__, this module would be a second copy, with other classes than those that a contestant imports.
    sys.exit(importlib.import_module("bench.harness.worker").main(sys.argv[1:]))
