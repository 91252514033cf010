"""``python -m craton``: run a program on Craton without changing it.

::

    python -m craton [--profile] [--cluster local:4] script.py [arguments]
    python -m craton [--profile] -m module [arguments]
    python -m craton [--profile] -c code [arguments]
    python -m craton demo [arguments]
    python -m craton store COMMAND [arguments]
    python -m craton actor COMMAND [arguments]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

USAGE = """\
usage: python -m craton [options] script.py [arguments]
       python -m craton [options] -m module [arguments]
       python -m craton [options] -c code [arguments]
       python -m craton demo [arguments]
       python -m craton store serve | ls | stat | rm | gc | verify | export
       python -m craton actor ls | top

Runs a program that imports pandas, unchanged, on Craton. Everything after the program is the program's.

options:
  --cluster WHERE    run tasks on a session: local:4 (four processes), ray, ray://host:10001, dask, dask:tcp://host:8786
  --profile          print, at the end, which calls ran natively or fell back to pandas, and how long they took
  --profile-to FILE  write the profile to FILE: the calls as .csv, or with the workers' tasks and memory as .html
  -h, --help         show this and exit
"""


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
        if word == "--profile":
            profile = True
        elif word == "--profile-to" or word.startswith("--profile-to="):
            profile_to = word.partition("=")[2] or _value(word, rest)
        elif word == "--cluster" or word.startswith("--cluster="):
            cluster = word.partition("=")[2] or _value(word, rest)
        elif word == "demo":
            from craton.demo.run import main as demo  # needs what only the demo needs

            raise SystemExit(demo(rest))
        elif word == "store":
            from craton.store.cli import main as store

            raise SystemExit(store(rest))
        elif word == "actor":
            from craton.actor.cli import main as actor

            raise SystemExit(actor(rest))
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
    if not profile and profile_to is None:
        run()
        return

    from craton.profiling import profile as start_profile

    with start_profile() as report:
        try:
            run()
        finally:
            report.stop()
            sys.stdout.flush()
            if profile_to is not None and profile_to.lower().endswith(".html"):
                report.save(profile_to)
            elif profile_to is not None:
                report.calls().to_csv(profile_to, index=False)
            if profile:
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
    main(sys.argv[1:])
