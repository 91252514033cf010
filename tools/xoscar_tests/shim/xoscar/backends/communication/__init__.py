"""`xoscar.backends.communication`: Xoscar's channels, which are its own."""

from ...private import names_of

__getattr__ = names_of(__name__)
