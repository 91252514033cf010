"""Tasks' work and task graphs for the tests of sessions."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from watching import until

from craton.schedule.tasks import Input, Read, Sink, Task, new_key

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


class Mixed:
    """Writes rows that depend on its seed and on all rows that it reads, spread over its parts."""

    def __init__(self, seed: int, parts: int, seconds: float = 0.0) -> None:
        self.seed, self.parts, self.seconds = seed, parts, seconds

    def run(self, inputs: Sequence[Input], sink: Sink) -> Any:
        rng = random.Random(self.seed)
        if self.seconds:
            time.sleep(self.seconds)
        mixed = self.seed
        for one in inputs:
            table = one.table()
            assert table.num_rows == one.rows
            mixed = (
                mixed * 31 + sum(table["n"].to_pylist() if table.num_rows else [7]) + len(table.schema.names)
            ) % 1_000_003
        sink.schema(SCHEMA)
        for part in range(self.parts):
            if rng.random() < 0.2:
                continue
            for _ in range(rng.choice([1, 1, 1, 2])):
                numbers = [(mixed + rng.randrange(1000)) % 1_000_003 for _ in range(rng.choice([0, 1, 3, 20]))]
                sink.write(part, pa.record_batch([numbers, [f"text {n}" for n in numbers]], SCHEMA))
        return mixed


class Raises:
    """Raises a given exception."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def run(self, inputs: Sequence[Input], sink: Sink) -> None:
        raise self.error


class Odd(Exception):
    """An exception that can be pickled but not unpickled."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__("cannot be made again")


class Elsewhere(Exception):
    """An exception that cannot be unpickled in one process, as if that process could not import its class."""

    def __init__(self, here: int) -> None:
        super().__init__(here)
        if os.getpid() == here:
            raise ImportError("no such module here")


class RaisesElsewhere:
    """Raises an exception that the driver cannot unpickle."""

    def __init__(self, driver: int) -> None:
        self.driver = driver

    def run(self, inputs: Sequence[Input], sink: Sink) -> None:
        raise Elsewhere(self.driver)


class RaisesOdd:
    """Raises an exception that cannot be unpickled, or returns an object that cannot be pickled."""

    def __init__(self, returns: bool = False) -> None:
        self.returns = returns

    def run(self, inputs: Sequence[Input], sink: Sink) -> Any:
        if self.returns:
            return sys._getframe()
        raise Odd(1, 2)


class Sleeps:
    """Sleeps, in a Python loop or in one blocking call that an interrupt cannot end; creates a file when it has begun."""

    def __init__(self, seconds: float, deep: bool = False, begun: Path | None = None) -> None:
        self.seconds, self.deep, self.begun = seconds, deep, begun

    def run(self, inputs: Sequence[Input], sink: Sink) -> None:
        sink.write(0, pa.table({"n": list(range(100_000))}))
        if self.begun is not None:
            self.begun.touch()
        if self.deep:
            time.sleep(self.seconds)
        until = time.monotonic() + self.seconds
        while time.monotonic() < until:
            time.sleep(0.001)


class Dies:
    """Ends its process the first few times; files in a folder count the attempts."""

    def __init__(self, folder: Path, times: int, how: str = "kill") -> None:
        self.folder, self.times, self.how = folder, times, how

    def run(self, inputs: Sequence[Input], sink: Sink) -> int:
        tried = len(list(self.folder.iterdir()))
        if tried < self.times:
            (self.folder / f"{tried}-{os.getpid()}").touch()
            print("these are my last words", file=sys.stderr, flush=True)
            if self.how == "exit":
                os._exit(3)
            os.kill(os.getpid(), signal.SIGKILL)
        sink.write(0, pa.table({"n": [tried]}))
        return tried


class Pid:
    """Returns its process id."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def run(self, inputs: Sequence[Input], sink: Sink) -> int:
        time.sleep(self.seconds)
        return os.getpid()


def graph(seed: int, tasks: int, most_seconds: float = 0.0) -> list[Task]:
    """Return a random task graph, in random order."""
    rng = random.Random(seed)
    made: list[Task] = []
    for number in range(tasks):
        parts = rng.choice([1, 1, 2, 5, 9])
        inputs = []
        for _ in range(rng.choice([0, 1, 1, 2]) if made else 0):
            chosen = rng.sample(made[-50:], min(rng.choice([1, 1, 3]), len(made[-50:])))
            least = min(task.parts for task in chosen)
            read = tuple(rng.sample(range(least), rng.randrange(1, min(least, 4) + 1)))
            rows = (rng.randrange(100), rng.randrange(1000)) if rng.random() < 0.3 else None
            inputs.append(Read(tuple(task.key for task in chosen), read, rows))
        work = Mixed(seed * 100_000 + number, parts, rng.random() * most_seconds)
        made.append(Task(new_key(), work, tuple(inputs), parts, stage=f"stage {number % 7}"))
    rng.shuffle(made)
    return made


class Times:
    """Returns when it began and ended."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def run(self, inputs: Sequence[Input], sink: Sink) -> tuple[float, float]:
        began = time.monotonic()
        time.sleep(self.seconds)
        return began, time.monotonic()


class Fills:
    """Fills memory, and keeps it for long enough to be measured."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes

    def run(self, inputs: Sequence[Input], sink: Sink) -> None:
        data = bytearray(self.nbytes)
        for place in range(0, len(data), 4096):
            data[place] = 1
        time.sleep(0.2)  # long enough to be sampled on a busy machine


class ShortOfMemory:
    """Raises MemoryError the first few times; a file counts the attempts."""

    def __init__(self, path: Path, times: int) -> None:
        self.path, self.times = path, times

    def run(self, inputs: Sequence[Input], sink: Sink) -> Any:
        with self.path.open("a") as file:
            file.write("x")
        if self.path.stat().st_size <= self.times:
            raise MemoryError("no room")
        return None


class Spread:
    """Distributes rows over parts by value modulo the number of parts."""

    def __init__(self, number: int, rows: int, parts: int, wait_for: Path | None = None) -> None:
        self.number, self.rows, self.parts, self.wait_for = number, rows, parts, wait_for

    def run(self, inputs: Sequence[Input], sink: Sink) -> None:
        if self.wait_for is not None:
            until(self.wait_for.exists)
        values = np.arange(self.number * self.rows, (self.number + 1) * self.rows)
        for part in range(self.parts):
            own = values[values % self.parts == part]
            sink.write(part, pa.table({"n": own, "twice": own * 2.0}))


class Summed:
    """Returns the sums of the columns that it reads, and the number of rows."""

    def run(self, inputs: Sequence[Input], sink: Sink) -> tuple[int, float, int]:
        table = pa.concat_tables([one.table() for one in inputs])
        sink.write(0, table.slice(0, 10))
        return int(np.sum(table["n"].to_numpy())), float(np.sum(table["twice"].to_numpy())), table.num_rows


def shuffle(rows: int, tiles: int, parts: int) -> tuple[list[Task], list[Task]]:
    """Return the tasks of a shuffle: those that write parts, and those that read them."""
    spread = [Task(new_key(), Spread(number, rows, parts), (), parts, rows * 16) for number in range(tiles)]
    keys = tuple(task.key for task in spread)
    return spread, [Task(new_key(), Summed(), (Read(keys, (part,)),)) for part in range(parts)]
