"""The Ray host: a placement group with one bundle for each worker, and a Ray actor, the launcher, in each bundle.

Ray chooses the machines, and places a bundle elsewhere when it loses a machine. Ray's actors end with the driver, even if that is
killed. Without an address, a cluster is started on this machine.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import ray
from ray.exceptions import GetTimeoutError
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from craton.cluster.hosts.base import WorkerSpec, cores
from craton.cluster.hosts.engine import EngineHost, Launched, most_threads
from craton.cluster.hosts.launcher import Launcher

# Bytes of the object store of a Ray cluster that is started here; only the messages to launchers pass through it.
_OBJECTS = 100 << 20


class RayHost(EngineHost):
    """Workers on Ray.

    Parameters
    ----------
    address
        The cluster's address, as for ``ray.init``; ``None`` uses ``RAY_ADDRESS``, or starts a cluster. If the program is connected
        to Ray already, that connection is used and stays open.
    runtime_env
        The runtime environment of the Ray actors that start workers.
    resources
        Ray resources of each worker in addition to CPUs, such as ``{"GPU": 1}``.
    strategy
        The strategy of the placement group.
    ray_options
        Further arguments of ``ray.init``.
    **more
        See :class:`EngineHost`.
    """

    name = "ray"

    def __init__(
        self,
        address: str | None = None,
        *,
        runtime_env: Mapping[str, Any] | None = None,
        resources: Mapping[str, float] | None = None,
        strategy: str = "SPREAD",
        ray_options: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(address, **more)
        self._runtime_env, self._resources = dict(runtime_env or {}), dict(resources or {})
        self._strategy, self._options = strategy, dict(ray_options or {})
        self._connected = False
        self._group: Any = None
        self._threads = 1

    def connect(self, spec: WorkerSpec) -> int:
        """Connect to the cluster and create the placement group; see :meth:`EngineHost.connect`."""
        self._actor_env = {}
        if ray.is_initialized():
            self._actor_env = self._runtime_env
        else:
            self._init(spec)
        free = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
        workers = spec.workers or sum(own // (spec.threads or 1) for own in free)
        if not workers:
            raise RuntimeError(
                f"Ray's machines have {free} CPUs, and each worker needs {spec.threads or 1}; pass workers=… if Ray can add machines"
            )
        self._threads = spec.threads or most_threads(free, workers)
        bundle = {"CPU": self._threads, **self._resources}
        self._group = placement_group([dict(bundle) for _ in range(workers)], self._strategy)
        try:
            ray.get(self._group.ready(), timeout=self.timeout)
        except GetTimeoutError:
            raise RuntimeError(
                f"Ray found no room for {workers} workers with {bundle} each within {self.timeout:g} s; its machines have {free} "
                f"CPUs. Pass a smaller workers=… or threads=…, or a longer timeout=…"
            ) from None
        return workers

    def _init(self, spec: WorkerSpec) -> None:
        address = self.address or os.environ.get("RAY_ADDRESS") or "local"
        options: dict[str, Any] = {"runtime_env": self._runtime_env or None}
        if address == "local":
            options |= {
                "num_cpus": max(cores(), (spec.workers or 1) * (spec.threads or 1)),
                "object_store_memory": _OBJECTS,
                "include_dashboard": False,
            }
        with _own_signals():
            ray.init(address, **{**options, **self._options})
        self._connected = True

    def launch(self, number: int) -> Launched:
        """Create a launcher in a bundle of the placement group; see :meth:`EngineHost.launch`."""
        strategy = PlacementGroupSchedulingStrategy(self._group, number)
        actor = (
            ray.remote(Launcher)
            .options(
                num_cpus=self._threads,
                resources={name: amount for name, amount in self._resources.items() if name != "GPU"},
                num_gpus=self._resources.get("GPU", 0),
                scheduling_strategy=strategy,
                runtime_env=self._actor_env or None,
            )
            .remote()
        )
        try:
            host = actor.__ray_call__.remote(_address)
            found, at = ray.get([actor.machine_info.remote(), host], timeout=self.timeout)
        except BaseException:
            with contextlib.suppress(Exception):
                ray.kill(actor)
            raise
        return Launched(actor, at, found, self._threads)

    def serve(self, launched: Launched, key: bytes, host: str) -> str:
        """Call the launcher; see :meth:`EngineHost.serve`."""
        return ray.get(launched.handle.serve.remote(key, host), timeout=self.timeout)

    @property
    def shares_working_directory(self) -> bool:
        """False if the runtime environment sets a working directory."""
        return "working_dir" not in self._runtime_env

    def disconnect(self) -> None:
        """Disconnect from the cluster; see :meth:`EngineHost.disconnect`."""
        launched, self._launched = self._launched, []
        group, self._group = self._group, None
        connected, self._connected = self._connected, False
        if ray.is_initialized():
            for one in launched:
                with contextlib.suppress(Exception):
                    ray.kill(one.handle)
            if group is not None:
                with contextlib.suppress(Exception):
                    remove_placement_group(group)
        if connected:
            with _own_signals():
                ray.shutdown()


def _address(_launcher: Any) -> str:
    return ray.util.get_node_ip_address()


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Restore the program's SIGTERM handler, which Ray replaces."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
