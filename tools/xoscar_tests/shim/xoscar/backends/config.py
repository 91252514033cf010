"""`xoscar.backends.config`: what a group of pools is made of, written down by hand."""

from craton.actor.pool import config


class ActorPoolConfig(config.ActorPoolConfig):
    """Craton's, with Xoscar's way to add a pool."""

    def add_pool_conf(
        self,
        process_index: int,
        label: str | None,
        internal_address: str | None,
        external_address: str,
        env: dict[str, str] | None = None,
    ) -> None:
        """Add a pool."""
        self.pools[process_index] = config.PoolConf(external_address, label, env)
