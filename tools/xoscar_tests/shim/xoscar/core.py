"""`xoscar.core`: references."""

from craton.actor import *  # noqa: F403
from craton.actor.actors import _NO_LOCK as NO_LOCK_ATTRIBUTE_HINT

__all__ = ["NO_LOCK_ATTRIBUTE_HINT"]
