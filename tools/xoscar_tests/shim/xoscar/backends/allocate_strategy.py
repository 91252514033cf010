"""`xoscar.backends.allocate_strategy`."""

from craton.actor.allocate_strategy import *  # noqa: F403
