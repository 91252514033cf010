"""`xoscar.context`: the functions of `craton.actor` as methods of one object."""

import craton.actor


def get_context() -> object:
    """Return that object: the module."""
    return craton.actor
