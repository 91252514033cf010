"""`xoscar.errors`."""

from craton.actor.errors import *  # noqa: F403
