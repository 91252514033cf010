"""How a check runs as a step: its answer becomes a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from craton.pipeline.tasks import Outcome

__all__ = ["CheckFunction", "check_message"]


class CheckFunction:
    """A check as a function that returns a table: whether it passed, and what it says.

    Parameters
    ----------
    function
        The user's function.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, **tables: Any) -> pa.Table:
        """Call the check.

        Raises
        ------
        TypeError
            If it returns neither a boolean nor a text nor nothing.
        """
        try:
            answer = self.function(**tables)
        except AssertionError as error:
            return pa.table({"passed": [False], "message": [str(error) or "an assertion does not hold"]})
        if answer is None:  # it only asserts
            answer = True
        if isinstance(answer, str):
            return pa.table({"passed": [False], "message": [answer]})
        if type(answer).__name__ not in ("bool", "bool_"):
            raise TypeError(
                f"a check returns True, False or a text that says what is wrong, not {type(answer).__name__}"
            )
        return pa.table({"passed": [bool(answer)], "message": [""]})


def check_message(outcome: Outcome) -> str | None:
    """What a check says that failed, which may be nothing; None if it passed."""
    table = outcome.outputs[None].pages.to_arrow()
    passed, message = table.column("passed")[0].as_py(), table.column("message")[0].as_py()
    return None if passed else str(message)
