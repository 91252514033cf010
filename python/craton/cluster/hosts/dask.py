"""The Dask host: one Craton worker beside each Dask worker, on any kind of Dask cluster.

Each Dask worker runs a launcher, which is a Dask actor. When Dask loses a worker, the launcher is created again on another Dask
worker that has none. Without an address, a cluster is started in this process.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import distributed

from craton.cluster.hosts.base import WorkerSpec, cores
from craton.cluster.hosts.engine import EngineHost, Launched
from craton.cluster.hosts.launcher import Launcher

# Seconds between checks for a Dask worker without a launcher.
_POLL = 0.1


class DaskHost(EngineHost):
    """Workers on Dask.

    Parameters
    ----------
    address
        The scheduler's address, or a Dask client or cluster; ``None`` starts a cluster.
    security
        The `security` argument of ``distributed.Client``.
    **more
        See :class:`EngineHost`.
    """

    name = "dask"

    def __init__(self, address: Any = None, *, security: Any = None, **more: Any) -> None:
        super().__init__(address, **more)
        self._security = security
        self._cluster: Any = None
        self._client: Any = None
        self._threads: int | None = None
        self._used: dict[int, str] = {}  # the Dask worker of each launcher
        self._lock = threading.Lock()

    def connect(self, spec: WorkerSpec) -> int:
        """Connect to the cluster; see :meth:`EngineHost.connect`."""
        self._threads = spec.threads
        if isinstance(self.address, distributed.Client):
            if self.address.asynchronous:
                raise ValueError(
                    "craton.init needs a synchronous Dask client; this one was made with asynchronous=True"
                )
            self._client = self.address
        else:
            if self.address is None:
                workers = spec.workers or max(cores() // (spec.threads or 1), 1)
                self._cluster = distributed.LocalCluster(
                    n_workers=workers,
                    threads_per_worker=spec.threads or max(cores() // workers, 1),
                    processes=False,  # Dask's workers only run launchers
                    memory_limit=0,
                    dashboard_address="127.0.0.1:0",
                    worker_dashboard_address="127.0.0.1:0",
                )
            self._client = distributed.Client(
                self._cluster or self.address, security=self._security, timeout=self.timeout, set_as_default=False
            )
        try:
            self._client.wait_for_workers(spec.workers or 1, self.timeout)
        except TimeoutError:
            raise RuntimeError(
                f"Dask has {len(self._workers())} workers at {self._client.scheduler.address} after {self.timeout:g} s, expected "
                f"{spec.workers or 1}; start more, or pass a smaller workers=… or a longer timeout=…"
            ) from None
        return spec.workers or len(self._workers())

    def _workers(self) -> Mapping[str, Any]:
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        return {name: known for name, known in workers.items() if known.get("status", "running") == "running"}

    def launch(self, number: int) -> Launched:
        """Create a launcher on a Dask worker that has none; see :meth:`EngineHost.launch`."""
        until = time.monotonic() + self.timeout
        name, known = self._free(number)
        while not name:
            if time.monotonic() > until:
                raise RuntimeError(
                    f"each of Dask's {len(self._workers())} workers runs a Craton worker already; start another Dask worker"
                )
            time.sleep(_POLL)
            name, known = self._free(number)
        future = self._client.submit(
            Launcher, actor=True, pure=False, workers=[name], allow_other_workers=False, key=f"craton-{uuid.uuid4()}"
        )
        try:
            actor = future.result(self.timeout)
            found = self._call_actor(actor, "machine_info")
        except BaseException:
            with contextlib.suppress(Exception):
                future.release()
            raise
        host = str(known.get("host") or urlsplit(name).hostname)
        return Launched((future, actor), host, found, self._threads or known["nthreads"])

    def _free(self, number: int) -> tuple[str, Mapping[str, Any]]:
        workers = self._workers()
        with self._lock:
            lost = self._used.pop(number, None)
            for name in workers:
                if name not in self._used.values() and name != lost:
                    self._used[number] = name
                    return name, workers[name]
        return "", {}

    def serve(self, launched: Launched, key: bytes, host: str) -> str:
        """Call the launcher; see :meth:`EngineHost.serve`."""
        return self._call_actor(launched.handle[1], "serve", key, host)

    def _call_actor(self, actor: Any, method: str, *arguments: Any) -> Any:
        with self._client.as_current():  # Dask sends an actor's calls through the current client
            return getattr(actor, method)(*arguments).result(self.timeout)

    def disconnect(self) -> None:
        """Disconnect from the cluster; see :meth:`EngineHost.disconnect`."""
        launched, self._launched = self._launched, []
        for one in launched:
            with contextlib.suppress(Exception):
                one.handle[0].release()
        client, self._client = self._client, None
        cluster, self._cluster = self._cluster, None
        if client is not None and client is not self.address:
            client.close()
        if cluster is not None:
            cluster.close()
