"""Exit statuses of commands, and their errors."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from craton.command import exit_status
from craton.errors import CratonError


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (None, 3, ""),
        (CratonError("of ours"), 1, "craton it: of ours\n"),
        (FileNotFoundError(2, "no such file", "x"), 1, "craton it: [Errno 2] no such file: 'x'\n"),
        (KeyError("no set named 'x'"), 1, "craton it: no set named 'x'\n"),
        (KeyError(), 1, "craton it: \n"),
        (ValueError("a value"), 1, "craton it: a value\n"),
        (KeyboardInterrupt(), 128 + signal.SIGINT, ""),
    ],
)
def test_exit_status(error: BaseException | None, status: int, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> Any:
        if error is not None:
            raise error
        return 3

    assert exit_status("craton it", work) == status
    assert capsys.readouterr().err == text


def test_what_nobody_expects_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        exit_status("craton it", lambda: 1 // 0)
