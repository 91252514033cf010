"""The Ray host: a placement group with room for each worker, and an actor of Ray's in each of its bundles.

Ray chooses the machines, and makes room again elsewhere when it loses one. Its actors end with the driver, however that
ends. Where no cluster is given, one is started on this machine.
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

from craton.cluster.hosts.base import Spec, cores
from craton.cluster.hosts.engine import EngineHost, Launched, most_threads
from craton.cluster.hosts.launcher import Launcher

# Bytes of the object store of a Ray that is started here: what is said to launchers, and no data.
_OBJECTS = 100 << 20


class RayHost(EngineHost):
    """Workers on Ray.

    Parameters
    ----------
    address
        Of the cluster, as for ``ray.init``; ``None`` for what ``RAY_ADDRESS`` says, or to start one. A program that is
        connected to Ray stays so.
    runtime_env
        Ray's, of the actors that start workers.
    resources
        What each worker takes of Ray beside processors, such as ``{"GPU": 1}``.
    strategy
        Of the placement group.
    ray_options
        More arguments of ``ray.init``.
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

    def connect(self, spec: Spec) -> int:
        """Connect to the cluster, and have it make room; see :meth:`EngineHost.connect`."""
        self._actor_env = {}
        if ray.is_initialized():
            self._actor_env = self._runtime_env
        else:
            self._init(spec)
        free = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
        workers = spec.workers or sum(own // (spec.threads or 1) for own in free)
        if not workers:
            raise RuntimeError(
                f"Ray's machines have {free} processors now, and a worker needs {spec.threads or 1}; if it can have more of "
                f"them, say how many workers"
            )
        self._threads = spec.threads or most_threads(free, workers)
        bundle = {"CPU": self._threads, **self._resources}
        self._group = placement_group([dict(bundle) for _ in range(workers)], self._strategy)
        try:
            ray.get(self._group.ready(), timeout=self.timeout)
        except GetTimeoutError:
            raise RuntimeError(
                f"Ray has not found room for {workers} workers with {bundle} each within {self.timeout:g} s; its machines have "
                f"{free} processors"
            ) from None
        return workers

    def _init(self, spec: Spec) -> None:
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
        """Have a launcher in a bundle of the group; see :meth:`EngineHost.launch`."""
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
            found, at = ray.get([actor.facts.remote(), host], timeout=self.timeout)
        except BaseException:
            with contextlib.suppress(Exception):
                ray.kill(actor)
            raise
        return Launched(actor, at, found, self._threads)

    def serve(self, launched: Launched, key: bytes, host: str) -> str:
        """Call the launcher; see :meth:`EngineHost.serve`."""
        return ray.get(launched.handle.serve.remote(key, host), timeout=self.timeout)

    @property
    def shares_folder(self) -> bool:
        """Not where Ray gives workers a folder."""
        return "working_dir" not in self._runtime_env

    def disconnect(self) -> None:
        """Let go of the cluster; see :meth:`EngineHost.disconnect`."""
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
    """Keep the program's handling of SIGTERM, which Ray changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
