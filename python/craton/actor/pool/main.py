"""The main pool of a group: it runs in the process that created the group, and starts, supervises and ends sub pools."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import weakref
from collections.abc import Callable
from typing import Any, Literal

from craton.actor.errors import ActorPoolNotStarted
from craton.actor.pool.base import request_handler
from craton.actor.pool.config import ActorPoolConfig, PoolConf
from craton.actor.pool.forks import groups
from craton.actor.pool.output import ProcessThread
from craton.actor.pool.placement import PlacingPool
from craton.actor.pool.processes import Process
from craton.actor.pool.recovery import SubPoolMonitor, raise_if_cancelled
from craton.actor.pool.sharing import GroupStore
from craton.actor.wire import addresses, bulk, tls
from craton.actor.wire.peers import Peers
from craton.actor.wire.tls import TLS, LoadedTLS

logger = logging.getLogger("craton.actor")

# Seconds that a sub pool's process has to end after a stop request.
_STOP_TIMEOUT = 3.0


class MainActorPool(PlacingPool):
    """The main pool of a group.

    Created by `craton.actor.create_actor_pool`; ``async with`` stops it at the end.

    Attributes
    ----------
    sub_processes : dict of str to Process
        The sub pools' processes, by address.
    """

    def __init__(
        self,
        config: ActorPoolConfig,
        auto_recover: str | bool,
        on_process_down: Callable[[Any, str], Any] | None,
        on_process_recover: Callable[[Any, str], Any] | None,
        use_uvloop: bool | str,
        security: TLS | Literal[False] | None = None,
        ucx: bool = False,
    ) -> None:
        self._bulk = contextlib.ExitStack()
        if ucx:
            self._bulk.enter_context(bulk.activated())
        self._activated: tuple[LoadedTLS | None, ...] = () if security is None else (tls.activate(security),)
        try:
            super().__init__(config, auto_recover)
            bulk.check()
        except BaseException:
            self._deactivate()
            raise
        self._on_process_down, self._on_process_recover = on_process_down, on_process_recover
        self._use_uvloop = use_uvloop
        self._last = 0
        self._process_thread = ProcessThread()
        weakref.finalize(self, self._process_thread.close)
        self._stopping: asyncio.Task[None] | None = None
        self._guard: asyncio.Task[None] | None = None
        self.store = GroupStore()

    # ---- life ----

    async def start(self) -> None:
        """Start every pool; called by `create_actor_pool`.

        Raises
        ------
        OSError
            A port is taken, or a host is not this machine's.
        RuntimeError
            The pool has been stopped; or a process ended before it was ready.
        """
        if self.stopped:
            raise RuntimeError("a pool that was stopped cannot be started again; create a new one")
        if self._listening:
            return
        try:
            self.listen()
        except BaseException:
            self.close()
            self._process_thread.close()
            raise
        groups.add(self)
        Peers.here().home = Peers.here().home or self.external_address
        self._guard = self.loop.create_task(self._until_the_loop_ends())
        try:
            await self._start_processes(self.config.get_process_indexes()[1:])
        except BaseException:
            await self.stop(force=True)
            raise

    async def _until_the_loop_ends(self) -> None:
        # `asyncio.run` cancels the remaining tasks when it ends. `stop` can no longer run then, so clean up here.
        try:
            await self._done.wait()
        except asyncio.CancelledError:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Kill all processes and close everything immediately; used when the event loop ends before `stop` was called."""
        self.stopped = True
        for monitor in self._monitors.values():
            monitor.abandon()
        self.sub_processes.clear()
        self._process_thread.close()
        self.close()
        self.store.close()
        groups.discard(self)

    async def _start_processes(self, indexes: list[int]) -> None:
        starting = [self.loop.create_task(self._start_process(index)) for index in indexes]
        try:
            results = await asyncio.gather(*starting, return_exceptions=True)
            for result in results:
                if isinstance(result, BaseException):
                    raise result
            if self.stopped:
                raise ActorPoolNotStarted(f"the pool at {self.external_address} was stopped while it started sub pools")
        except BaseException:
            for task in starting:
                task.cancel()
            await asyncio.gather(*starting, return_exceptions=True)
            for task in starting:
                if not task.cancelled() and task.exception() is None:
                    task.result().end()
            raise
        for index, task in zip(indexes, starting, strict=True):
            process = task.result()
            self.config.pools[index].address = process.address
            self.sub_processes[process.address] = process
            self._monitors[process.address] = SubPoolMonitor(self, process)
        await self.send_configuration()

    async def _start_process(self, index: int, again: bool = False) -> Process:
        """Start a sub pool's process, or with ``again`` restart it, and wait until it is ready."""
        conf = self.config.pools[index]
        given = {
            "config": self.config,
            "index": index,
            "modules": conf.modules,
            "logging": conf.logging,
            "use_uvloop": self._use_uvloop,
            "reports": self.auto_recover == "actor",
            "recreates": again and self.auto_recover == "actor",
        }
        safety = tls.variables(None if self.secured is None else self.secured.tls)
        safety["CRATON_ACTOR_KEY"] = self._key.decode()
        if bulk.enabled():
            safety[bulk.VARIABLE] = "ucx"
        process = await Process.start(given, conf.python, {**safety, **(conf.env or {})}, self._process_thread)
        try:
            await process.ready()
        except BaseException:
            process.end()
            raise
        return process

    async def send_configuration(self) -> None:
        """Send the group's configuration to the sub pools."""
        living = [address for address, process in self.sub_processes.items() if process.is_alive()]
        if sending := [self.spawn(self._configure(address)) for address in living]:
            await asyncio.wait(sending, timeout=_STOP_TIMEOUT)  # a busy pool reads the message later

    async def _configure(self, address: str) -> None:
        try:
            await Peers.here().ask(address, "configure", self.config)
        except (ConnectionError, ActorPoolNotStarted):
            pass  # it has ended, or is about to
        except Exception:
            logger.exception("The group's configuration could not be sent to the sub pool at %s", address)

    async def stop(self, force: bool = False, timeout: float = _STOP_TIMEOUT) -> None:
        """Stop all pools of the group; their actors are destroyed.

        Parameters
        ----------
        force : bool
            Kill the processes immediately.
        timeout : float
            Seconds that each sub pool has to destroy its actors and end, before its process is killed; and that the
            actors of the main pool have for their `__pre_destroy__`.
        """
        if self._stopping is None:
            self._stopping = self.loop.create_task(self._stop(force, timeout))
        if force:
            for process in self.sub_processes.values():
                process.kill()
        await asyncio.shield(self._stopping)

    async def _stop(self, force: bool, timeout: float) -> None:
        self.stopped = True
        try:
            await asyncio.gather(*[monitor.stop_supervising() for monitor in self._monitors.values()])
            await asyncio.gather(*[self._end(*each, timeout) for each in self.sub_processes.items()])
            if not force:
                await self.pre_destroy_all(timeout)
        finally:
            # Runs also if the loop ends, and cancels this, meanwhile.
            for process in self.sub_processes.values():
                process.end()
            Peers.here().close(set(self.sub_processes))
            self.sub_processes.clear()
            self._process_thread.close()
            self.close()
            self.store.close()
            groups.discard(self)
            if Peers.here().home == self.external_address:
                Peers.here().home = ""
            if self._guard is not None:
                self._guard.cancel()

    async def _end(self, address: str, process: Process, timeout: float) -> None:
        asking = [self.loop.create_task(Peers.here().ask(address, "stop", None))] if process.is_alive() else []
        try:
            with contextlib.suppress(TimeoutError):
                await process.wait(timeout)
            if process.is_alive():
                process.kill()
                with contextlib.suppress(TimeoutError):
                    await process.wait(timeout)
        finally:
            process.end()  # also if this was cancelled
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    async def __aenter__(self) -> MainActorPool:
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.stop()

    def close(self) -> None:
        """Stop listening, close all connections, and drop the actors and the group's settings of connections."""
        super().close()
        self._deactivate()

    def _deactivate(self) -> None:
        self._bulk.close()
        for settings in self._activated:
            tls.deactivate(settings)
        self._activated = ()

    # ---- more and fewer pools ----

    async def append_sub_pool(
        self,
        label: str | None = None,
        internal_address: str | None = None,
        external_address: str | None = None,
        env: dict[str, str] | None = None,
        modules: list[str] | None = None,
        suspend_sigint: bool | None = None,
        use_uvloop: bool | None = None,
        logging_conf: dict[str, Any] | None = None,
        start_python: str | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> str:
        """Start one more sub pool; return its address.

        `internal_address`, `suspend_sigint`, `use_uvloop` and `kwargs` are Xoscar's options, accepted and ignored.

        Parameters
        ----------
        label : str, optional
            The pool's label.
        external_address : str, optional
            The pool's address; by default a free port of the main pool's host.
        env : dict, optional
            Environment variables of its process.
        modules : list of str, optional
            Modules that it imports before it serves; by default the group's.
        logging_conf : dict, optional
            Its logging, as in `create_actor_pool`; by default the group's.
        start_python : str, optional
            Its Python interpreter, such as a virtual environment's.

        Raises
        ------
        ActorPoolNotStarted
            The group has been stopped.
        OSError
            The port is taken, or the interpreter does not exist.
        RuntimeError
            The process ended before it was ready.
        """
        if self.stopped:
            raise ActorPoolNotStarted(f"the pool at {self.external_address} has stopped")
        self._last = index = max(self._last, *self.config.pools) + 1
        first = self.config.pools[0]
        conf = PoolConf(
            external_address or addresses.join(addresses.split(first.address)[0], None),
            label,
            env,
            modules if modules is not None else first.modules,
            start_python,
            logging_conf or first.logging,
            first.listen,
        )
        self.config.pools[index] = conf
        try:
            await self._start_processes([index])
        except BaseException:
            del self.config.pools[index]
            raise
        return self.config.pools[index].address

    async def remove_sub_pool(self, external_address: str, timeout: float | None = None, force: bool = False) -> None:
        """Stop a sub pool, destroy its actors, and remove it from the group.

        Parameters
        ----------
        external_address : str
            The sub pool's address.
        timeout : float, optional
            Seconds that it has to end before its process is killed; 3 by default.
        force : bool
            Kill its process immediately.

        Raises
        ------
        ValueError
            The group has no sub pool at that address.
        """
        index = self.config.get_process_index(external_address)
        if index == 0:
            raise ValueError(f"{external_address} is the main pool, which cannot be removed; use stop() to stop it")
        del self.config.pools[index]
        process = self.sub_processes.pop(external_address, None)
        monitor = self._monitors.pop(external_address, None)
        if monitor is not None:
            await monitor.stop_supervising()
        if process is not None:
            if force:
                process.kill()
            await self._end(external_address, process, _STOP_TIMEOUT if timeout is None else timeout)
        self._made.pop(external_address, None)
        for held in [held for held in self._idle if held[0] == external_address]:
            del self._idle[held]
        Peers.here().close({external_address})
        await self.send_configuration()

    # ---- processes that end ----

    def notify(self, down: bool, address: str) -> None:
        """Call the user's callback for the end (``down``) or the restart of a sub pool's process."""
        function = self._on_process_down if down else self._on_process_recover
        if function is not None:
            self.spawn(self._notify(function, address))

    async def _notify(self, function: Callable[[Any, str], Any], address: str) -> None:
        try:
            found = function(self, address)
            if inspect.isawaitable(found):
                await found
        except Exception:
            logger.exception(
                "The callback on_process_down or on_process_recover failed for the sub pool at %s", address
            )

    async def restart(self, address: str) -> Process:
        """Restart the process of a sub pool."""
        return await self._start_process(self.config.get_process_index(address), again=True)

    async def recreate_actors(self, address: str) -> None:
        """Recreate the actors of a restarted sub pool, if ``auto_recover`` says so, and let it serve them.

        Raises
        ------
        ServerClosed, ActorPoolNotStarted
            The restarted process has ended too, or is about to.
        """
        peers = Peers.here()
        if self.auto_recover == "actor":
            for uid, spec in list(self._made.get(address, {}).items()):
                try:
                    await peers.ask(address, "recreate", (uid, spec))
                except (ConnectionError, ActorPoolNotStarted):
                    raise
                except Exception:
                    logger.exception("The actor %r at %s could not be recreated", uid, address)
                raise_if_cancelled()
        # Pools may have been added and removed since the process was started.
        await peers.ask(address, "configure", self.config)
        await peers.ask(address, "all recreated", None)
        raise_if_cancelled()

    # ---- requests about processes ----

    async def kill_pool(self, address: str) -> None:
        """Kill the process of a sub pool.

        Raises
        ------
        ValueError
            The address is that of the main pool, or of no pool of the group.
        """
        monitor = self._monitors.get(address)
        if monitor is None:
            raise ValueError(f"{address} is not a sub pool of this group, and only sub pools can be killed")
        await monitor.kill()

    async def exit_report(self, address: str, pid: int | None) -> tuple[str, int | None] | None:
        """Return how a sub pool's process ended: the one with that pid, or for None the last one if none runs."""
        monitor = self._monitors.get(address)
        if monitor is None:
            # The caller may reach the sub pool at another address than the configured one; see `addresses.seen_from`.
            same = [one for known, one in self._monitors.items() if addresses.seen_from(known, address) == address]
            monitor = same[0] if same else None
        return None if monitor is None else await monitor.exit_report(pid)


@request_handler("kill")
async def _kill(pool: Any, address: Any) -> None:
    await pool.kill_pool(address)


@request_handler("recovered")
async def _recovered(pool: Any, address: Any) -> None:
    await pool.wait_recovered(address)


@request_handler("exit report")
async def _exit_report(pool: Any, value: Any) -> Any:
    return await pool.exit_report(*value)
