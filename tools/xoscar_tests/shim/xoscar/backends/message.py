"""`xoscar.backends.message`: Xoscar's wire format, which Craton does not have."""

from ..private import names_of

__getattr__ = names_of(__name__)
