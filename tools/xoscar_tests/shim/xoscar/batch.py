"""`xoscar.batch`."""

from craton.actor import extensible

from .private import names_of

__all__ = ["extensible"]
__getattr__ = names_of(__name__)
