"""What the pools of a group are doing: counted where it happens, asked for by address.

```python
found = await craton.actor.metrics("127.0.0.1:7103")
found.frame()  # a row a pool
found.prometheus()  # as text
```
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from craton.actor.pool.base import Pool, answers
from craton.actor.waiting import wait_for
from craton.actor.wire.peers import ask_pool

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["GroupMetrics", "metrics"]

# Seconds that a pool has to answer.
_PATIENCE = 3.0

_COUNTERS = {
    "calls": ("calls_total", "calls of methods that have begun"),
    "errors": ("errors_total", "calls and questions that ended with an exception, told to the caller"),
    "bytes_in": ("received_bytes_total", "bytes that clients have sent"),
    "bytes_out": ("sent_bytes_total", "bytes that were sent to clients"),
}
_GAUGES = {
    "actors": ("actors", "actors that live in the pool"),
    "connections": ("connections", "clients that are connected"),
    "running": ("running", "messages that are being handled, or wait for their actor"),
    "queue": ("queue", "calls that wait for their actor's turn"),
    "memory": ("memory_bytes", "memory of the pool's process that is resident"),
}
_HISTOGRAM = ("handling_seconds", "seconds from a call's message to its result")


def _resident() -> int:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


@answers("metrics")
async def _metrics(pool: Pool, _: Any) -> dict[str, Any]:
    conf = pool.config.pools[pool.process_index]
    links = list(pool._links)
    return {
        "address": pool.external_address,
        "index": pool.process_index,
        "label": conf.label,
        "pid": os.getpid(),
        "actors": len(pool.actors),
        "connections": len(links),
        "calls": pool.counted["calls"],
        "errors": pool.counted["errors"],
        "running": sum(task is not asyncio.current_task() for task in pool._running.values()),
        "queue": sum(len(actor._turn) for actor in pool.actors.values() if actor._turn is not None),
        "bytes_in": pool.counted["received"] + sum(link.received for link in links),
        "bytes_out": pool.counted["sent"] + sum(link.sent for link in links),
        "memory": _resident(),
        "seconds": pool.handled.seconds,
        "buckets": pool.handled.buckets,
    }


class GroupMetrics:
    """What the pools of one group said at one time.

    Attributes
    ----------
    pools : list of dict
        One a pool, the main one first; one that did not answer has only ``address``, ``index``, ``label`` and
        ``error``.
    """

    def __init__(self, pools: list[dict[str, Any]]) -> None:
        self.pools = pools

    def frame(self) -> pd.DataFrame:
        """Return a row a pool, by address; seconds and quantiles are of handling, from the histogram's bounds.

        What did not answer has missing values.
        """
        import pandas as pd

        columns = ["index", "label", "pid", *_GAUGES, *_COUNTERS, "seconds", "p50", "p99"]
        rows = [
            {**pool, **{f"p{part}": quantile(pool["buckets"], part / 100) for part in (50, 99) if "buckets" in pool}}
            for pool in self.pools
        ]
        frame = pd.DataFrame(rows, index=pd.Index([pool["address"] for pool in self.pools], name="address"))
        return frame.reindex(columns=columns)

    def prometheus(self) -> str:
        """Return them in Prometheus' text format."""
        lines = []
        known = [(pool, _labels(pool)) for pool in self.pools if "error" not in pool]
        for kind, every in (("counter", _COUNTERS), ("gauge", _GAUGES)):
            for key, (name, text) in every.items():
                lines += [f"# HELP craton_actor_{name} {text}", f"# TYPE craton_actor_{name} {kind}"]
                lines += [f"craton_actor_{name}{{{labels}}} {pool[key]}" for pool, labels in known]
        name, text = f"craton_actor_{_HISTOGRAM[0]}", _HISTOGRAM[1]
        lines += [f"# HELP {name} {text}", f"# TYPE {name} histogram"]
        for pool, labels in known:
            total = 0
            for place, count in enumerate(pool["buckets"]):
                total += count
                lines.append(f'{name}_bucket{{{labels},le="{bound(place):g}"}} {total}')
            lines[-1] = f'{name}_bucket{{{labels},le="+Inf"}} {total}'
            lines += [f"{name}_sum{{{labels}}} {pool['seconds']:.9g}", f"{name}_count{{{labels}}} {total}"]
        up = "craton_actor_up"
        lines += [f"# HELP {up} whether the pool answered", f"# TYPE {up} gauge"]
        lines += [f"{up}{{{_labels(pool)}}} {int('error' not in pool)}" for pool in self.pools]
        return "\n".join(lines) + "\n"

    def __repr__(self) -> str:
        return f"<GroupMetrics of {len(self.pools)} pools>"


def bound(place: int) -> float:
    """Return the upper bound of a bucket, in seconds: powers of two of a microsecond."""
    return 1e-6 * (1 << place)


def quantile(buckets: Iterable[int], part: float) -> float | None:
    """Return the bound below which that part of what was counted lies, in seconds; None where nothing was."""
    counts = list(buckets)
    left = part * sum(counts)
    for place, count in enumerate(counts):
        left -= count
        if count and left <= 0:
            return bound(place)
    return None


def _labels(pool: dict[str, Any]) -> str:
    pairs = {"pool": pool["address"], "index": str(pool["index"]), "label": pool["label"] or ""}
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs.items())


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


async def metrics(address: str) -> GroupMetrics:
    """Return what the pools of a group are doing.

    Parameters
    ----------
    address : str
        Of any pool of the group.

    Raises
    ------
    ServerClosed
        Nobody serves there.
    TimeoutError
        The pool there has not answered in time; others of its group may.
    """
    try:
        config = await wait_for(ask_pool(address, "config", None), _PATIENCE)
    except TimeoutError:
        raise TimeoutError(f"the pool at {address} has not answered within {_PATIENCE:g} s") from None
    return GroupMetrics(list(await asyncio.gather(*[_one(index, conf) for index, conf in config.pools.items()])))


async def _one(index: int, conf: Any) -> dict[str, Any]:
    try:
        found: dict[str, Any] = await wait_for(ask_pool(conf.address, "metrics", None), _PATIENCE)
    except Exception as error:
        said = f"no answer within {_PATIENCE:g} s" if isinstance(error, TimeoutError) else str(error)
        return {"address": conf.address, "index": index, "label": conf.label, "error": said}
    return found
