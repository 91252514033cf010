"""The configuration of a group's pools, which its pools and Xoscar's programs read."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any


@dataclass
class PoolConf:
    """The configuration of one pool."""

    address: str
    label: str | None = None
    env: dict[str, str] | None = None
    modules: list[str] | None = None
    python: str | None = None
    logging: dict[str, Any] | None = None
    listen: str | None = None
    """The host to listen on, if it is not the one in the address."""


@dataclass
class ActorPoolConfig:
    """The pools of a group, by process index; the main pool has index 0."""

    pools: dict[int, PoolConf] = field(default_factory=dict)

    def get_process_indexes(self) -> list[int]:
        return list(self.pools)

    def get_external_address(self, process_index: int) -> str:
        """Return a pool's address."""
        return self.pools[process_index].address

    def get_external_addresses(self, label: str | None = None) -> list[str]:
        """Return the addresses of all pools, or of those with a label."""
        return [pool.address for pool in self.pools.values() if label is None or pool.label == label]

    def get_process_index(self, external_address: str) -> int:
        """Return the process index of the pool at an address.

        Raises
        ------
        ValueError
            The group has no pool at that address.
        """
        for index, pool in self.pools.items():
            if pool.address == external_address:
                return index
        raise ValueError(f"no pool of this group is at {external_address}")

    def get_pool_config(self, process_index: int) -> dict[str, Any]:
        """Return a pool's configuration as a dict.

        Raises
        ------
        KeyError
            The group has no pool of that index.
        """
        found = dataclasses.asdict(self.pools[process_index])
        return {**found, "external_address": [found["address"]]}

    def as_dict(self) -> dict[str, Any]:
        """Return the configuration of all pools as a dict: ``pools``, by process index, and ``mapping``, by address, to addresses."""
        pools = {index: self.get_pool_config(index) for index in self.pools}
        return {"pools": pools, "mapping": {address: address for address in self.get_external_addresses()}}

    @property
    def n_pool(self) -> int:
        """The number of pools, with the main pool."""
        return len(self.pools)
