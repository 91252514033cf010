"""Distributed training with PyTorch in the processes that prepare its data: a Craton program feeds a model on each rank.

The ranks read Parquet files, join and aggregate them, and divide the rows evenly. The same processes then train one model with
PyTorch's DistributedDataParallel over Gloo: nothing is written, and nothing is sent between a data cluster and a training
cluster. After each epoch the model is a checkpoint: if a rank dies, training goes on from it.

    pip install torch
    python examples/spmd/torch_training.py --rows 200000 --ranks 2
"""

from __future__ import annotations

import argparse
import socket
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from craton.spmd import Environment, Executor, frames

FEATURES = ["distance", "hour", "busy", "mean_speed"]


def write_trips(folder: Path, rows: int) -> None:
    """Write trips, in files of 50,000 rows, and zones. The fare follows from both, with noise."""
    random = np.random.default_rng(0)
    zones = pd.DataFrame({"zone": np.arange(200), "busy": random.random(200)})
    zones.to_parquet(folder / "zones.parquet")
    trips = pd.DataFrame(
        {
            "zone": random.integers(0, 200, rows),
            "distance": random.gamma(2.0, 1.5, rows),
            "hour": random.integers(0, 24, rows) / 24,
            "speed": random.normal(30.0, 5.0, rows),
        }
    )
    busy = zones["busy"].to_numpy()[trips["zone"]]
    trips["fare"] = 3 + 2 * trips["distance"] + 4 * busy - trips["hour"] + random.normal(0.0, 0.1, rows)
    for number, start in enumerate(range(0, rows, 50_000)):
        trips.iloc[start : start + 50_000].to_parquet(folder / f"trips-{number:03}.parquet")


def features(folder: str, env: Environment) -> pd.DataFrame:
    """The pipeline: join trips and zones, add each zone's mean speed over all ranks, scale, and give each rank as many rows."""
    trips = env.read_parquet(f"{folder}/trips-*.parquet")
    joined = frames.merge(trips, env.read_parquet(f"{folder}/zones.parquet"), on="zone", env=env)
    speeds = frames.groupby(joined, "zone", env=env).agg(mean_speed=("speed", "mean")).reset_index()
    joined = frames.merge(joined, speeds, on="zone", env=env)
    for name in FEATURES:
        joined[name] = (joined[name] - frames.mean(joined[name], env=env)) / frames.std(joined[name], env=env)
    return frames.rebalance(joined[[*FEATURES, "fare"]], env=env)


def join_group(env: Environment) -> Any:
    """Make the ranks a process group of PyTorch: rank 0 serves the store by which they find each other."""
    import torch.distributed as dist

    host, wait = socket.gethostbyname(socket.gethostname()), timedelta(seconds=60)
    store: Any = dist.TCPStore(host, 0, None, True, wait, False) if env.rank == 0 else None
    host, port = env.comm.broadcast((host, store.port) if store is not None else None)
    if store is None:
        store = dist.TCPStore(host, port, None, False, wait)
    dist.init_process_group("gloo", store=store, rank=env.rank, world_size=env.world_size)
    return dist


def train(part: pd.DataFrame, epochs: int, env: Environment) -> tuple[list[float], list[float]]:
    """Train a linear model on all ranks; return the loss of each epoch, and the parameters."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    dist = join_group(env)
    try:
        inputs, target = (
            torch.tensor(part[FEATURES].to_numpy(np.float32)),
            torch.tensor(part[["fare"]].to_numpy(np.float32)),
        )
        torch.manual_seed(0)
        layer = torch.nn.Linear(len(FEATURES), 1)
        done, losses = 0, list[float]()
        if env.restored is not None:
            done, losses, state = env.restored
            layer.load_state_dict(state)
        model = DistributedDataParallel(layer)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
        batches = int(env.comm.allreduce(len(inputs), "max")) // 2000 + 1  # the same number on all ranks
        for epoch in range(done, epochs):
            order = torch.from_numpy(env.rng.permutation(len(inputs)))
            total = torch.zeros(1)
            for chosen in order.tensor_split(batches):
                optimizer.zero_grad()
                loss = torch.nn.functional.mse_loss(model(inputs[chosen]), target[chosen])
                loss.backward()
                optimizer.step()
                total += loss.detach()
            losses.append(float(env.comm.allreduce(float(total))) / batches / env.world_size)
            env.logger.info("epoch %d: loss %.4f", epoch, losses[-1])
            env.checkpoint((epoch + 1, losses, layer.state_dict()))
        return losses, [float(value) for weights in layer.parameters() for value in weights.detach().flatten()]
    finally:
        dist.destroy_process_group()


def main() -> None:
    """Prepare the data and train; show the loss, and whether all ranks have the same model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000, help="number of trips (default: %(default)s)")
    parser.add_argument("--ranks", type=int, default=2, help="number of processes (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=5, help="(default: %(default)s)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Executor(given.ranks, name="training", max_restarts=1) as executor:
        write_trips(Path(folder), given.rows)
        parts = executor.run(features, folder)
        results = executor.run(train, parts, given.epochs).results()
    losses, parameters = results[0]
    print("losses:", " ".join(f"{loss:.4f}" for loss in losses))
    print("weights:", dict(zip([*FEATURES, "bias"], (round(value, 2) for value in parameters), strict=True)))
    print("the same model on all ranks:", all(found == parameters for _, found in results))


if __name__ == "__main__":
    main()
