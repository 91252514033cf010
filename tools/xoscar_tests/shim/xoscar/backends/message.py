"""`xoscar.backends.message`: Xoscar's wire format, which is its own."""

from ..private import names_of

__getattr__ = names_of(__name__)
