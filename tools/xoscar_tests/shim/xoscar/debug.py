"""`xoscar.debug`: passes the messages of Craton's debug mode on to Xoscar's logger."""

import json
import logging
import os

from craton.actor import DebugOptions, get_debug_options, set_debug_options

__all__ = ["DebugOptions", "get_debug_options", "reload_debug_opts_from_env", "set_debug_options"]


class _PassOn(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        logging.getLogger("xoscar.debug").handle(record)


logging.getLogger("craton.actor.debug").addHandler(_PassOn())


def reload_debug_opts_from_env() -> None:
    """Set the debug options from Xoscar's environment variable."""
    text = os.environ.get("DEBUG_OSCAR", "0")
    set_debug_options(None if text == "0" else DebugOptions(**({} if text == "1" else json.loads(text))))
