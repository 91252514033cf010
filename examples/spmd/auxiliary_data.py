"""Two SPMD programs at once: one prepares auxiliary data, the other works meanwhile, and joins its own data with them.

The programs have different numbers of ranks. They exchange a frame by its name, in shared memory.

    python examples/spmd/auxiliary_data.py --rows 1000000
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

from craton.spmd import Environment, Executor, frames, gather


def events(rows: int, rank: int, ranks: int) -> pd.DataFrame:
    """The rank's part of the events: a client and an amount each."""
    numbers = np.arange(rank * rows // ranks, (rank + 1) * rows // ranks)
    return pd.DataFrame({"client": numbers * 7919 % (rows // 10), "amount": numbers % 100 / 4})


def clients(rows: int, rank: int, ranks: int) -> pd.DataFrame:
    """The rank's part of the clients: each has one of eight regions."""
    numbers = np.arange(rank * (rows // 10) // ranks, (rank + 1) * (rows // 10) // ranks)
    return pd.DataFrame({"client": numbers, "region": numbers % 8})


def process_auxiliary_data(rows: int, env: Environment) -> None:
    """Prepare the clients, and put them under a name."""
    part = clients(rows, env.rank, env.world_size)
    part["weight"] = 1 + part["region"] / 8
    env.store.put("clients", frames.rebalance(part, env=env))
    env.logger.info("%d clients are prepared", len(part))


def main_program(rows: int, env: Environment) -> pd.DataFrame:
    """Work on the events, then join them with the clients."""
    data = events(rows, env.rank, env.world_size)
    data["amount"] -= frames.mean(data["amount"], env=env)
    known = env.store.get("clients", timeout=60)
    joined = frames.merge(data, known, on="client", env=env)
    joined["weighted"] = joined["amount"] * joined["weight"]
    return frames.groupby(joined, "region", env=env).agg(weighted=("weighted", "sum"), events=("client", "count"))


def main() -> None:
    """Run both programs, and compare with one process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="number of events (default: %(default)s)")
    rows = parser.parse_args().rows
    with Executor(2, name="auxiliary") as preparing, Executor(4, name="main") as working:
        result = working.run(main_program, rows)
        preparing.run(process_auxiliary_data, rows).results()
        found = gather(result)
    print(found)

    data, known = events(rows, 0, 1), clients(rows, 0, 1)
    data["amount"] -= data["amount"].mean()
    joined = data.merge(known.assign(weight=1 + known["region"] / 8), on="client")
    joined["weighted"] = joined["amount"] * joined["weight"]
    expected = joined.groupby("region").agg(weighted=("weighted", "sum"), events=("client", "count"))
    same = np.allclose(found["weighted"], expected["weighted"], atol=1e-3) and found["events"].equals(
        expected["events"]
    )
    print("equal to one process:", same)


if __name__ == "__main__":
    main()
