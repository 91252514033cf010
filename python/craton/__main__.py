"""``python -m craton``, or ``craton``: run a program on Craton without changing it.

::

    python -m craton [--profile] [--cluster local:4] script.py [arguments]
    python -m craton [--profile] -m module [arguments]
    python -m craton [--profile] -c code [arguments]
    python -m craton run pipeline.py [arguments]
    python -m craton plan pipeline.py [arguments]
    python -m craton demo [arguments]
    python -m craton store COMMAND [arguments]
    python -m craton actor COMMAND [arguments]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module

from craton import __version__

#: The modules of the commands, imported when one is run, and their functions.
_COMMANDS = {
    "demo": ("craton.demo.run", "main"),
    "store": ("craton.store.cli", "main"),
    "actor": ("craton.actor.cli", "main"),
    "run": ("craton.pipeline.cli", "run"),
    "plan": ("craton.pipeline.cli", "plan"),
}

USAGE = """\
usage: python -m craton [options] script.py [arguments]
       python -m craton [options] -m module [arguments]
       python -m craton [options] -c code [arguments]
       python -m craton run | plan pipeline.py [options]
       python -m craton demo [arguments]
       python -m craton store serve | ls | stat | rm | gc | verify | export
       python -m craton actor ls | top

Runs a program that imports pandas, unchanged, on Craton. Arguments after the program are passed to it.

options:
  --cluster WHERE    run tasks on a session: local:4 (four processes), ray, ray://host:10001, dask, dask:tcp://host:8786
  --profile          print, at the end, which calls ran natively or fell back to pandas, and how long they took
  --profile-to FILE  write the profile to FILE: the calls as .csv, or with the workers' tasks and memory as .html
  --version          show the version and exit
  -h, --help         show this and exit
"""


def command() -> None:
    """Run the command ``craton``, which is the same as ``python -m craton``."""
    main(sys.argv[1:])


def main(arguments: list[str]) -> None:
    """Run the command line `arguments` (without the program's name)."""
    profile, profile_to, cluster = False, None, None
    run: Callable[[], None] | None = None
    rest = list(arguments)
    while rest and run is None:
        word = rest.pop(0)
        if word in ("-h", "--help"):
            print(USAGE, end="")
            return
        if word == "--version":
            print(f"craton {__version__}")
            return
        if word == "--profile":
            profile = True
        elif word == "--profile-to" or word.startswith("--profile-to="):
            profile_to = word.partition("=")[2] or _value(word, rest)
        elif word == "--cluster" or word.startswith("--cluster="):
            cluster = word.partition("=")[2] or _value(word, rest)
        elif word in _COMMANDS:
            module, function = _COMMANDS[word]
            raise SystemExit(getattr(import_module(module), function)(rest))
        else:
            run = _program(word, rest)
    if run is None:
        _refuse("no program was given; name a script, or use -m or -c")
        return

    from craton.accelerate import install

    install()
    if cluster is not None:
        from craton.cluster import begin

        try:
            begin(cluster)
        except (ValueError, NotImplementedError, OSError) as error:
            _refuse(f"--cluster: {error}")
    if profile or profile_to is not None:
        _run_profiled(run, profile, profile_to)
    else:
        run()


def _run_profiled(run: Callable[[], None], shown: bool, path: str | None) -> None:
    """Run a program, then print its profile if it is `shown`, and write it to `path`."""
    from craton.profiling import profile

    with profile() as report:
        try:
            run()
        finally:
            report.stop()
            sys.stdout.flush()
            if path is not None and path.lower().endswith(".html"):
                report.save(path)
            elif path is not None:
                report.calls().to_csv(path, index=False)
            if shown:
                print(report, file=sys.stderr)


def _program(word: str, rest: list[str]) -> Callable[[], None]:
    """Return a function that runs the program that the argument `word` names, with the arguments `rest`."""
    from craton.accelerate.run import run_code, run_module, run_script

    for flag, runner in (("-m", run_module), ("-c", run_code)):
        if word.startswith(flag):
            target = word[2:] or _value(word, rest)
            return partial(runner, target, rest)
    if word.startswith("-") and word != "-":
        _refuse(f"unknown option {word}")
    return partial(run_script, word, rest)


def _value(option: str, rest: list[str]) -> str:
    if not rest:
        _refuse(f"the option {option} needs a value")
    return rest.pop(0)


def _refuse(problem: str) -> None:
    print(f"craton: {problem}\n\n{USAGE}", end="", file=sys.stderr)
    raise SystemExit(2)


if __name__ == "__main__":
    command()
