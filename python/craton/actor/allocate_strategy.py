"""Strategies that choose the pool of a new actor within a group."""

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
    """The base of the strategies; subclasses choose the address of a pool."""

    @abstractmethod
    def get_allocated_address(self, config: Any, allocated: Allocated) -> str:
        """Return the address of the pool in which to create the actor.

        Parameters
        ----------
        config : ActorPoolConfig
            The group's pools.
        allocated : dict
            The living actors that an `IdleLabel` placed: ``{address: {reference: (strategy, None)}}``.

        Raises
        ------
        NoIdleSlot
            Every matching pool is occupied.
        IndexError, ValueError
            No pool of the group matches.
        """


def _one_of(addresses: list[str], what: str) -> str:
    if not addresses:
        raise ValueError(f"the group has no {what}")
    return random.choice(addresses)


@dataclass(frozen=True)
class AddressSpecified(AllocateStrategy):
    """The pool at the given address."""

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
    """A random pool."""

    def get_allocated_address(self, config: Any, allocated: Allocated) -> str:
        return _one_of(config.get_external_addresses(), "pool")


@dataclass(frozen=True)
class RandomSubPool(AllocateStrategy):
    """A random sub pool."""

    def get_allocated_address(self, config: Any, allocated: Allocated) -> str:
        return _one_of(config.get_external_addresses()[1:], "sub pool")


@dataclass(frozen=True)
class ProcessIndex(AllocateStrategy):
    """The pool at a position in the group, in the order in which pools were added; the main pool is at 0."""

    process_index: int

    def get_allocated_address(self, config: Any, allocated: Allocated) -> str:
        addresses = config.get_external_addresses()
        if not -len(addresses) <= self.process_index < len(addresses):
            raise IndexError(
                f"process_index {self.process_index} is out of range for a group of {len(addresses)} pools"
            )
        return addresses[self.process_index]


@dataclass(frozen=True)
class RandomLabel(AllocateStrategy):
    """A random pool with the given label."""

    label: str

    def get_allocated_address(self, config: Any, allocated: Allocated) -> str:
        return _one_of(config.get_external_addresses(label=self.label), f"pool with the label {self.label!r}")


@dataclass(frozen=True)
class IdleLabel(AllocateStrategy):
    """A pool with the given label in which no actor was placed with the same label and mark."""

    label: str
    mark: str

    def get_allocated_address(self, config: Any, allocated: Allocated) -> str:
        for address in config.get_external_addresses(label=self.label):
            if all(strategy != self for strategy, _ in allocated.get(address, {}).values()):
                return address
        raise NoIdleSlot(f"every pool with the label {self.label!r} has an actor with the mark {self.mark!r}")
