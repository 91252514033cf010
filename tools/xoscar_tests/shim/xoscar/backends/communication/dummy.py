"""`xoscar.backends.communication.dummy`: the channel between Xoscar's pools in one process."""

from ...private import names_of

__getattr__ = names_of(__name__)
