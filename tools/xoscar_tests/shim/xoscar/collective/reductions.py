"""Constants and reductions; the runner installs this module as `xoscar.collective.common`."""

from craton.actor.collective import (
    RANK_ADDRESS_ENV_KEY,
    RENDEZVOUS_MASTER_IP_ENV_KEY,
    RENDEZVOUS_MASTER_PORT_ENV_KEY,
    AllReduceAlgorithm,
    CollectiveReduceOp,
)

__all__ = [
    "RANK_ADDRESS_ENV_KEY",
    "RENDEZVOUS_MASTER_IP_ENV_KEY",
    "RENDEZVOUS_MASTER_PORT_ENV_KEY",
    "AllReduceAlgorithm",
    "CollectiveReduceOp",
]
