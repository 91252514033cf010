"""`xoscar.collective.core`."""

from craton.actor.collective import *  # noqa: F403
