"""Metrics of the pools of a group: each pool counts its own, and `metrics` collects them.

```python
found = await craton.actor.metrics("127.0.0.1:7103")
found.frame()  # a DataFrame with a row for each pool
found.prometheus()  # Prometheus' text format
```
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from craton.actor.pool.base import Pool, request_handler
from craton.actor.waiting import wait_for
from craton.actor.wire.peers import ask_pool

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["GroupMetrics", "metrics"]

# Timeout of a pool's answer, in seconds.
_ANSWER_TIMEOUT = 3.0

_COUNTERS = {
    "calls": ("calls_total", "method calls that have started"),
    "errors": ("errors_total", "calls and requests that ended with an exception"),
    "bytes_in": ("received_bytes_total", "bytes received from clients"),
    "bytes_out": ("sent_bytes_total", "bytes sent to clients"),
}
_GAUGES = {
    "actors": ("actors", "actors in the pool"),
    "connections": ("connections", "connected clients"),
    "running": ("running", "messages being handled or waiting for their actor's lock"),
    "queue": ("queue", "calls waiting for their actor's lock"),
    "memory": ("memory_bytes", "resident memory of the pool's process"),
}
_HISTOGRAM = ("handling_seconds", "seconds from a call's message to its result")


def _resident() -> int:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


@request_handler("metrics")
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
        "seconds": pool.durations.seconds,
        "buckets": pool.durations.buckets,
    }


class GroupMetrics:
    """A snapshot of the metrics of a group's pools.

    Attributes
    ----------
    pools : list of dict
        A dict for each pool, the main pool's first. That of a pool that did not answer has only ``address``, ``index``,
        ``label`` and ``error``.
    """

    def __init__(self, pools: list[dict[str, Any]]) -> None:
        self.pools = pools

    def frame(self) -> pd.DataFrame:
        """Return a DataFrame with a row for each pool, indexed by address.

        ``seconds`` is the total time spent on calls; ``p50`` and ``p99`` are upper bounds of the quantiles of a call's
        time in seconds, from the histogram's buckets. The row of a pool that did not answer has missing values.
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
        """Return the metrics in Prometheus' text format."""
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
    """Return the upper bound of a bucket in seconds: 1 µs times a power of two."""
    return 1e-6 * (1 << place)


def quantile(buckets: Iterable[int], part: float) -> float | None:
    """Return the upper bound, in seconds, of the bucket that holds a quantile (0 to 1); None if nothing was counted."""
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
    """Collect the metrics of all pools of a group.

    Parameters
    ----------
    address : str
        The address of any pool of the group.

    Raises
    ------
    ServerClosed
        No pool can be reached at that address.
    TimeoutError
        The pool at that address did not answer in time.
    """
    try:
        config = await wait_for(ask_pool(address, "config", None), _ANSWER_TIMEOUT)
    except TimeoutError:
        raise TimeoutError(f"the pool at {address} has not answered within {_ANSWER_TIMEOUT:g} s") from None
    return GroupMetrics(list(await asyncio.gather(*[_one(index, conf) for index, conf in config.pools.items()])))


async def _one(index: int, conf: Any) -> dict[str, Any]:
    try:
        found: dict[str, Any] = await wait_for(ask_pool(conf.address, "metrics", None), _ANSWER_TIMEOUT)
    except Exception as error:
        reason = f"no answer within {_ANSWER_TIMEOUT:g} s" if isinstance(error, TimeoutError) else str(error)
        return {"address": conf.address, "index": index, "label": conf.label, "error": reason}
    return found
