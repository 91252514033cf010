"""`xoscar.api`: functions and base classes."""

from craton.actor import *  # noqa: F403
