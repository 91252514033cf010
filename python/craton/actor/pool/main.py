"""The main pool of a group: it lives in the process that made it, and starts, watches and ends the sub pools."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import weakref
from collections.abc import Callable
from typing import Any

from craton.actor.allocate_strategy import Allocated, IdleLabel
from craton.actor.pool.base import Pool, answers
from craton.actor.pool.config import ActorPoolConfig, PoolConf
from craton.actor.pool.processes import Process, Watcher
from craton.actor.refs import make_ref
from craton.actor.wire import addresses
from craton.actor.wire.peers import Peers

logger = logging.getLogger("craton.actor")

# Seconds that a process has to end when it is asked to.
_PATIENCE = 3.0

_all: weakref.WeakSet[MainActorPool] = weakref.WeakSet()


class MainActorPool(Pool):
    """The pool of the process that made the group.

    Made by `craton.actor.create_actor_pool`; ``async with`` stops it at the end.

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
        use_uvloop: bool,
    ) -> None:
        super().__init__(config, 0)
        self.sub_processes: dict[str, Process] = {}
        self._auto_recover = auto_recover
        self._on_process_down, self._on_process_recover = on_process_down, on_process_recover
        self._use_uvloop = use_uvloop
        self._watcher = Watcher()
        self._watching: dict[str, asyncio.Task[None]] = {}
        # How to make the actors of each sub pool again, and which idle labels they hold.
        self._made: dict[str, dict[bytes, bytes]] = {}
        self._idle: dict[tuple[str, bytes], IdleLabel] = {}
        self._placing = asyncio.Lock()
        self._recovered: dict[str, asyncio.Event] = {}
        self._obituaries: dict[str, tuple[str, int | None]] = {}
        self._expected: set[str] = set()

    # ---- life ----

    async def start(self) -> None:
        """Start every pool; called by `create_actor_pool`.

        Raises
        ------
        OSError
            A port is taken, or a host is not this machine's.
        RuntimeError
            The pool has been stopped; or a process ended before it served.
        """
        if self.stopped:
            raise RuntimeError("a pool that was stopped cannot be started again; make a new one")
        if self._listening:
            return
        self.listen()
        _all.add(self)
        try:
            await self._start_processes(self.config.get_process_indexes()[1:])
        except BaseException:
            await self.stop(force=True)
            raise

    async def _start_processes(self, indexes: list[int]) -> None:
        started = [(index, self._process(index)) for index in indexes]
        results = await asyncio.gather(*[process.ready() for _, process in started], return_exceptions=True)
        for (index, process), result in zip(started, results, strict=True):
            if isinstance(result, BaseException):
                for _, other in started:
                    other.kill()
                    other.close()
                raise result
            self.config.pools[index].address = result
            self.sub_processes[result] = process
        await self._tell_configuration()
        for _, process in started:
            self._watch(process)

    def _process(self, index: int) -> Process:
        conf = self.config.pools[index]
        given = {
            "config": self.config,
            "index": index,
            "modules": conf.modules,
            "logging": conf.logging,
            "use_uvloop": self._use_uvloop,
            "reports": self._auto_recover == "actor",
        }
        return Process(given, conf.python, {"CRATON_ACTOR_KEY": self._key.decode(), **(conf.env or {})}, self._watcher)

    async def _tell_configuration(self) -> None:
        peers = Peers.here()
        await asyncio.gather(
            *[peers.ask(address, "configure", self.config) for address in self.sub_processes], return_exceptions=True
        )

    async def stop(self, force: bool = False, timeout: float = _PATIENCE) -> None:
        """Stop all pools of the group; their actors are destroyed.

        Parameters
        ----------
        force : bool
            Kill the processes at once.
        timeout : float
            Seconds that a process has to end when it is asked to; it is killed then.
        """
        if self.stopped and not self.sub_processes:
            return
        self.stopped = True
        self._expected.update(self.sub_processes)
        for task in self._watching.values():
            task.cancel()
        processes = list(self.sub_processes.items())
        self.sub_processes.clear()
        await asyncio.gather(*[self._end(address, process, force, timeout) for address, process in processes])
        if not force:
            for actor in list(self.actors.values()):
                with contextlib.suppress(Exception):
                    await actor.__pre_destroy__()
        Peers.here().close({address for address, _ in processes})
        self._watcher.close()
        self.close()
        _all.discard(self)

    async def _end(self, address: str, process: Process, force: bool, timeout: float) -> None:
        if not force and process.is_alive():
            with contextlib.suppress(Exception):
                await asyncio.wait_for(Peers.here().ask(address, "stop", None), timeout)
            with contextlib.suppress(asyncio.TimeoutError):
                await process.wait(timeout)
        if process.is_alive():
            process.kill()
            await process.wait()
        process.close()

    async def __aenter__(self) -> MainActorPool:
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.stop()

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
        **_others: Any,
    ) -> str:
        """Start one more sub pool; return its address.

        Parameters
        ----------
        label : str, optional
            Its label.
        external_address : str, optional
            Where; a free port of the main pool's host by default.
        env : dict, optional
            Environment variables of its process.
        modules : list of str, optional
            What it imports first.
        start_python : str, optional
            Its interpreter, such as a virtual environment's.
        """
        index = max(self.config.pools) + 1
        first = self.config.pools[0]
        self.config.pools[index] = PoolConf(
            external_address or addresses.split(first.address)[0],
            label,
            env,
            modules if modules is not None else first.modules,
            start_python,
            logging_conf or first.logging,
            first.listen,
        )
        try:
            await self._start_processes([index])
        except BaseException:
            del self.config.pools[index]
            raise
        return self.config.pools[index].address

    async def remove_sub_pool(self, external_address: str, timeout: float | None = None, force: bool = False) -> None:
        """End a sub pool and its actors.

        Raises
        ------
        ValueError
            The group has none at that address.
        """
        index = self.config.get_process_index(external_address)
        if index == 0:
            raise ValueError("the main pool is not removed; stop it")
        self._expected.add(external_address)
        process = self.sub_processes.pop(external_address)
        self._watching.pop(external_address).cancel()
        del self.config.pools[index]
        await self._end(external_address, process, force, _PATIENCE if timeout is None else timeout)
        self._made.pop(external_address, None)
        Peers.here().close({external_address})
        await self._tell_configuration()

    # ---- processes that end ----

    def _watch(self, process: Process) -> None:
        task = self.loop.create_task(self._until_it_ends(process))
        self._watching[process.address] = task

    async def _until_it_ends(self, process: Process) -> None:
        address = process.address
        await process.wait()
        await asyncio.sleep(0.02)  # its last lines
        if address in self._expected and self.stopped:
            return
        how = process.how_it_ended()
        self._obituaries[address] = (
            f"the process of the pool at {address} (pid {process.pid}) {how}",
            process.returncode,
        )
        logger.warning("The process of the sub pool at %s (pid %d) %s", address, process.pid, how)
        event = self._recovered.setdefault(address, asyncio.Event())
        process.close()
        try:
            self._call_back(self._on_process_down, address)
            if self._auto_recover:
                await self._recover(address)
                self._call_back(self._on_process_recover, address)
            else:
                self.sub_processes.pop(address, None)
        except Exception:
            logger.exception("The sub pool at %s could not be made again", address)
        finally:
            event.set()
            self._recovered.pop(address, None)

    def _call_back(self, function: Callable[[Any, str], Any] | None, address: str) -> None:
        if function is None:
            return
        try:
            found = function(self, address)
            if asyncio.iscoroutine(found):
                self.spawn(found)
        except Exception:
            logger.exception("A callback about the sub pool at %s failed", address)

    async def _recover(self, address: str) -> None:
        index = self.config.get_process_index(address)
        process = self._process(index)
        try:
            await process.ready()
        except BaseException:
            process.kill()
            process.close()
            self.sub_processes.pop(address, None)
            raise
        self.sub_processes[address] = process
        self._watch(process)
        await Peers.here().ask(address, "configure", self.config)
        if self._auto_recover == "actor":
            for uid, spec in list(self._made.get(address, {}).items()):
                try:
                    await Peers.here().ask(address, "create", (uid, spec, None, True))
                except Exception:
                    logger.exception("The actor %r at %s could not be made again", uid, address)
        else:
            self._made.pop(address, None)

    # ---- actors of the group ----

    async def create_in_group(self, uid: Any, spec: bytes, strategy: Any, told: bool = False) -> tuple[str, bytes]:
        """Create an actor in the pool that the strategy chooses."""
        if strategy is None:
            return await self._create_at(self.external_address, uid, spec)
        if not isinstance(strategy, IdleLabel):
            return await self._create_at(strategy.get_allocated_address(self.config, {}), uid, spec)
        async with self._placing:
            allocated: Allocated = {}
            for (address, name), label in list(self._idle.items()):
                if label == strategy and await self._lives(address, name):
                    allocated.setdefault(address, {})[make_ref(address, name)] = (label, None)
            address, uid = await self._create_at(strategy.get_allocated_address(self.config, allocated), uid, spec)
            self._idle[address, uid] = strategy
            return address, uid

    async def _create_at(self, address: str, uid: Any, spec: bytes) -> tuple[str, bytes]:
        if address == self.external_address:
            return address, await self.create(uid, spec)
        if address not in self.sub_processes:
            return await Peers.here().ask(address, "create", (uid, spec, None))
        _, uid = await Peers.here().ask(address, "create", (uid, spec, None, True))
        await self.created(address, {uid: spec})
        return address, uid

    async def created(self, address: str, specs: dict[bytes, bytes]) -> None:
        """Take note of how to make actors of a sub pool again."""
        if self._auto_recover == "actor":
            self._made.setdefault(address, {}).update(specs)

    async def _lives(self, address: str, uid: bytes) -> bool:
        if address == self.external_address:
            return uid in self.actors
        with contextlib.suppress(ConnectionError):
            if await Peers.here().ask(address, "has here", uid):
                return True
        self._idle.pop((address, uid), None)
        return False

    async def destroyed(self, uid: bytes) -> None:
        """Nothing has to be told."""

    async def find(self, uid: bytes, but: str | None = None) -> str | None:
        """Ask the sub pools."""
        others = [address for address in self.sub_processes if address != but]
        found = await asyncio.gather(*[self._lives(address, uid) for address in others])
        return next((address for address, lives in zip(others, found, strict=True) if lives), None)

    async def kill_pool(self, address: str) -> None:
        """Kill the process of a sub pool.

        Raises
        ------
        ValueError
            It is this process.
        """
        process = self.sub_processes.get(address)
        if process is None:
            raise ValueError(f"{address} is no sub pool of this group; its main pool's process is not killed")
        self._recovered.setdefault(address, asyncio.Event())
        process.kill()
        await process.wait()

    async def wait_recovered(self, address: str) -> None:
        """Wait until a sub pool that was lost is there again."""
        event = self._recovered.get(address)
        if event is not None:
            await event.wait()

    async def obituary(self, address: str) -> tuple[str, int | None] | None:
        """Return how the process of a sub pool ended, once it has."""
        process = self.sub_processes.get(address)
        if process is not None and process.is_alive():
            with contextlib.suppress(asyncio.TimeoutError):
                await process.wait(0.5)
        await asyncio.sleep(0.03)
        return self._obituaries.get(address)


@answers("created")
async def _created(pool: Any, value: Any) -> None:
    await pool.created(*value)


@answers("destroyed")
async def _destroyed(pool: Any, value: Any) -> None:
    address, uid = value
    pool._made.get(address, {}).pop(uid, None)
    pool._idle.pop((address, uid), None)


@answers("find elsewhere")
async def _find_elsewhere(pool: Any, value: Any) -> str | None:
    uid, but = value
    return pool.external_address if uid in pool.actors else await pool.find(uid, but)


@answers("kill")
async def _kill(pool: Any, address: Any) -> None:
    await pool.kill_pool(address)


@answers("recovered")
async def _recovered(pool: Any, address: Any) -> None:
    await pool.wait_recovered(address)


@answers("obituary")
async def _obituary(pool: Any, address: Any) -> Any:
    return await pool.obituary(address)


@atexit.register
def _end_all() -> None:
    # A loop that ended without stopping its pools: their processes end with this one's pipes, now rather than later.
    for pool in list(_all):
        for process in pool.sub_processes.values():
            if process.is_alive() and os.getpid() == process._owner:
                process.kill()
