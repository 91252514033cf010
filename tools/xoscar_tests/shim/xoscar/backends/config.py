"""`xoscar.backends.config`: the configuration of a group of pools."""

from craton.actor.pool import config


class ActorPoolConfig(config.ActorPoolConfig):
    """Craton's configuration, with Xoscar's method to add a pool."""

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
