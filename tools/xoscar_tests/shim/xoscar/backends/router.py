"""`xoscar.backends.router`: the parts of Xoscar's internal table of addresses that tests use.

They are whether a pool of this process is registered under its address, until it is stopped, and the kind of
connection to another address.
"""

from typing import Any

from craton.actor.pools import _pools

from ..private import Private


class Router:
    """The pools of this process."""

    _one: "Router"

    @classmethod
    def get_instance(cls) -> "Router":
        """Return the only instance."""
        return cls._one

    get_instance_or_empty = get_instance

    @classmethod
    def set_instance(cls, router: object) -> None:
        """Do nothing: the instance has no state."""

    @property
    def _mapping(self) -> dict[str, Any]:
        return {address: pool for address, pool in list(_pools.items()) if not pool.stopped}

    @property
    def _curr_external_addresses(self) -> list[str]:
        return list(self._mapping)

    def get_internal_address(self, address: str) -> str:
        """Return the connection to a pool: direct within this process, otherwise a Unix socket."""
        return f"{'dummy' if address in self._mapping else 'unixsocket'}://{address}"

    def __getattr__(self, name: str) -> Any:
        raise Private(f"Router.{name} is not part of Xoscar's public API")


Router._one = Router()
