"""`xoscar.backends.communication`: Xoscar's channels, which Craton does not have."""

from ...private import names_of

__getattr__ = names_of(__name__)
