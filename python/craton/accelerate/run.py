"""Runs a program with Craton installed, as ``python`` itself would run it; the implementation of ``python -m craton``.

A script, a module or a string of code gets the same ``__main__``, ``sys.argv`` and ``sys.path`` as with ``python``. Its
traceback shows no frames of this module, and its exit status is unchanged.
"""

from __future__ import annotations

import builtins
import os
import runpy
import sys
from importlib.machinery import SourceFileLoader
from types import ModuleType, TracebackType
from typing import Any

__all__ = ["run_code", "run_module", "run_script"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def run_script(path: str, arguments: list[str]) -> None:
    """Run a file, or a directory or zip file that holds a ``__main__.py``.

    Parameters
    ----------
    path
        The program; "-" reads it from standard input.
    arguments
        The arguments after it on the command line.
    """
    sys.argv[:] = [path, *arguments]
    if path == "-":
        _set_first_path("")
        _execute(sys.stdin.read(), "<stdin>", _fresh_main())
        return
    if os.path.isdir(path) or _is_archive(path):
        sys.path.insert(0, path) if sys.flags.safe_path else _set_first_path(path)
        _fresh_main()
        _as_main("__main__", alter_argv=False)
        return
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        print(
            f"{sys.executable}: can't open file {os.path.abspath(path)!r}: [Errno {error.errno}] {error.strerror}",
            file=sys.stderr,
        )
        raise SystemExit(2) from None
    _set_first_path(os.path.dirname(os.path.realpath(path)))
    main = _fresh_main()
    main.__file__ = os.path.abspath(path)
    main.__loader__ = SourceFileLoader("__main__", main.__file__)
    vars(main)["__cached__"] = None
    _execute(source, main.__file__, main)


def run_module(name: str, arguments: list[str]) -> None:
    """Run a module or package, as ``python -m name`` does."""
    sys.argv[:] = ["-m", *arguments]
    _set_first_path(os.getcwd())
    _fresh_main()
    _as_main(name, alter_argv=True)


def run_code(code: str, arguments: list[str]) -> None:
    """Run a string, as ``python -c code`` does."""
    sys.argv[:] = ["-c", *arguments]
    _set_first_path("")
    _execute(code, "<string>", _fresh_main())


def _fresh_main() -> ModuleType:
    """Replace Craton's ``__main__`` by a new, empty module."""
    main = ModuleType("__main__")
    vars(main)["__builtins__"] = builtins
    main.__doc__ = None
    sys.modules["__main__"] = main
    return main


def _set_first_path(entry: str) -> None:
    """Replace the first entry of ``sys.path``: the working directory for ``python -m craton``, the scripts' folder for ``craton``."""
    if not sys.flags.safe_path:
        sys.path[0] = entry


def _is_archive(path: str) -> bool:
    import zipimport  # programs are rarely archives

    try:
        zipimport.zipimporter(path)
    except zipimport.ZipImportError:
        return False
    return True


def _execute(source: str | bytes, filename: str, main: ModuleType) -> None:
    try:
        exec(compile(source, filename, "exec", dont_inherit=True), vars(main))
    except BaseException as error:
        _hide_frames(error)
        raise


def _as_main(name: str, *, alter_argv: bool) -> None:
    # ``python -m`` calls this function itself. The public run_module() would restore sys.modules["__main__"] and clear
    # its globals while the program's threads and exit handlers may still use them.
    run: Any = runpy._run_module_as_main  # type: ignore[attr-defined]
    try:
        run(name, alter_argv)
    except BaseException as error:
        _hide_frames(error)
        raise


def _hide_frames(error: BaseException) -> None:
    """Make the traceback that is printed for `error` start in the program, not in this module."""
    if isinstance(error, SystemExit):
        return
    hook = sys.excepthook

    def excepthook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        while trace is not None and _is_ours(trace):
            trace = trace.tb_next
        hook(kind, value.with_traceback(trace), trace)

    sys.excepthook = excepthook


def _is_ours(trace: TracebackType) -> bool:
    filename = trace.tb_frame.f_code.co_filename
    return filename.startswith(_PACKAGE) or filename in ("<frozen runpy>", runpy.__file__)
