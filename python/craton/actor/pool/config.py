"""What the pools of a group are."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any


@dataclass
class PoolConf:
    """One pool."""

    address: str
    label: str | None = None
    env: dict[str, str] | None = None
    modules: list[str] | None = None
    python: str | None = None
    logging: dict[str, Any] | None = None
    listen: str | None = None
    """The host to listen at, where that is not the address's."""


@dataclass
class ActorPoolConfig:
    """The pools of a group, by their process indexes; the first is the main one."""

    pools: dict[int, PoolConf] = field(default_factory=dict)

    def get_process_indexes(self) -> list[int]:
        """Return the numbers of all pools."""
        return list(self.pools)

    def get_external_address(self, process_index: int) -> str:
        """Return a pool's address."""
        return self.pools[process_index].address

    def get_external_addresses(self, label: str | None = None) -> list[str]:
        """Return the addresses of all pools, or of those with a label."""
        return [pool.address for pool in self.pools.values() if label is None or pool.label == label]

    def get_process_index(self, external_address: str) -> int:
        """Return the number of the pool at that address.

        Raises
        ------
        ValueError
            There is none.
        """
        for index, pool in self.pools.items():
            if pool.address == external_address:
                return index
        raise ValueError(f"no pool of this group is at {external_address}")

    def get_pool_config(self, process_index: int) -> dict[str, Any]:
        """Return what is known of a pool.

        Raises
        ------
        KeyError
            There is none of that number.
        """
        found = dataclasses.asdict(self.pools[process_index])
        return {**found, "external_address": [found["address"]]}

    def as_dict(self) -> dict[str, Any]:
        """Return everything as one dict."""
        return {"pools": {index: self.get_pool_config(index) for index in self.pools}}

    @property
    def n_pool(self) -> int:
        """How many pools there are."""
        return len(self.pools)
