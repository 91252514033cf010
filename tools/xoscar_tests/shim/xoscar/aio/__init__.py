"""`xoscar.aio`: files that are read and written without blocking the loop."""

from craton.actor.aio import AioFileObject

__all__ = ["AioFileObject"]
