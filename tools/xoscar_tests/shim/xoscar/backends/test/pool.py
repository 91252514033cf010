"""`xoscar.backends.test.pool`."""

from ..indigen.pool import MainActorPool as TestMainActorPool

__all__ = ["TestMainActorPool"]
