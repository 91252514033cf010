"""Where a new actor goes among the pools of a group."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from craton.actor.errors import NoIdleSlot

__all__ = [
    "AddressSpecified", "AllocateStrategy", "IdleLabel", "MainPool", "ProcessIndex", "Random", "RandomLabel", "RandomSubPool",
]  # fmt: skip

Allocated = dict[str, dict[Any, tuple["AllocateStrategy", Any]]]


class AllocateStrategy(ABC):
    """Chooses the address of a pool."""

    @abstractmethod
    def get_allocated_address(self, config: Any, allocated: Allocated) -> str:
        """Return an address.

        Parameters
        ----------
        config : ActorPoolConfig
            The group's pools.
        allocated : dict
            The actors that were placed by an `IdleLabel` and live: by the address of their pool, and there by a
            reference, the strategy and None.

        Raises
        ------
        NoIdleSlot
            No pool is free.
        IndexError, ValueError
            No pool is such a one.
        """


def _one_of(addresses: list[str], what: str) -> str:
    if not addresses:
        raise ValueError(f"the group has no {what}")
    return random.choice(addresses)


@dataclass(frozen=True)
class AddressSpecified(AllocateStrategy):
    """The pool at that address."""

    address: str

    def get_allocated_address(self, config: Any, allocated: Allocated) -> str:
        return self.address


@dataclass(frozen=True)
class MainPool(AllocateStrategy):
    """The main pool."""

    def get_allocated_address(self, config: Any, allocated: Allocated) -> str:
        return config.get_external_addresses()[0]


@dataclass(frozen=True)
class Random(AllocateStrategy):
    """Any pool."""

    def get_allocated_address(self, config: Any, allocated: Allocated) -> str:
        return _one_of(config.get_external_addresses(), "pool")


@dataclass(frozen=True)
class RandomSubPool(AllocateStrategy):
    """Any pool but the main one."""

    def get_allocated_address(self, config: Any, allocated: Allocated) -> str:
        return _one_of(config.get_external_addresses()[1:], "sub pool")


@dataclass(frozen=True)
class ProcessIndex(AllocateStrategy):
    """The pool at that place among those of the group, in the order in which they were added; the main one is at 0."""

    process_index: int

    def get_allocated_address(self, config: Any, allocated: Allocated) -> str:
        addresses = config.get_external_addresses()
        if not -len(addresses) <= self.process_index < len(addresses):
            raise IndexError(f"there is no pool {self.process_index} among {len(addresses)}")
        return addresses[self.process_index]


@dataclass(frozen=True)
class RandomLabel(AllocateStrategy):
    """Any pool with that label."""

    label: str

    def get_allocated_address(self, config: Any, allocated: Allocated) -> str:
        return _one_of(config.get_external_addresses(label=self.label), f"pool with the label {self.label!r}")


@dataclass(frozen=True)
class IdleLabel(AllocateStrategy):
    """A pool with that label that has no actor with the same label and mark yet."""

    label: str
    mark: str

    def get_allocated_address(self, config: Any, allocated: Allocated) -> str:
        for address in config.get_external_addresses(label=self.label):
            if all(strategy != self for strategy, _ in allocated.get(address, {}).values()):
                return address
        raise NoIdleSlot(f"every pool with the label {self.label!r} has an actor with the mark {self.mark!r}")
