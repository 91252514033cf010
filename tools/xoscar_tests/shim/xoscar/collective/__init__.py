"""`xoscar.collective`."""

from craton.actor.collective import *  # noqa: F403
