"""`xoscar.collective.process_group`."""

from craton.actor.collective import ProcessGroup

__all__ = ["ProcessGroup"]
