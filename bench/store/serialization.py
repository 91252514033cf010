"""Serialization: writing and reading the four objects of Ray's "Fast Python Serialization with Ray and Apache Arrow".

    python -m bench.store.serialization --contestants craton,pickle,cloudpickle,arrow,ray

As in Ray's blog post, a measurement repeats an operation ten times, or forty times for operations that take microseconds.
Writing ends when the object's bytes are in memory. Reading returns the object, which is then dropped. The contestants are:

``craton``, ``ray``: put into the store of this process, or Ray's store on this machine, and get. Each object is dropped when
the next one has been put, so both stores reuse memory that was written to before.
``craton-container``: Craton's containers, written to memory that was written to before.
``craton-new``: the same, in new memory of the operating system, as ``pickle`` and ``cloudpickle`` use.
``memcpy``: copies only the arrays' items, on one thread, to memory that was written to before.
``arrow``: writes one IPC message per array, and does not support the other objects.
"""

from __future__ import annotations

import argparse
import importlib
import pickle
import sys
import time
from collections.abc import Callable
from typing import Any

from bench.harness import command
from bench.harness.measure import Benchmark, Case
from bench.harness.worker import Contestant

__all__ = ["OBJECTS", "main", "open_contestant"]

TIMES = 10
RAY_BYTES = 1_500_000_000
CONTESTANTS = ("pickle", "craton", "craton-container", "craton-new", "cloudpickle", "arrow", "memcpy")


def _arrays() -> list[Any]:
    import numpy as np

    generator = np.random.default_rng(0)
    return [generator.standard_normal(50_000) for _ in range(100)]


OBJECTS: dict[str, Callable[[], Any]] = {
    "list of arrays": _arrays,
    "dict of arrays": lambda: {f"weight-{number}": array for number, array in enumerate(_arrays())},
    "dict of sets": lambda: {i: {"string1" + str(i), "string2" + str(i)} for i in range(100_000)},
    "list of strings": lambda: [str(i) for i in range(200_000)],
}
"""Name to the function that makes the object: large arrays in a list or a dict, a large dict of small sets, many strings."""

CASES = {f"{name}, {way}": (name, way) for name in OBJECTS for way in ("write", "read")}


def times(case: str) -> int:
    """Return how often one measurement of a case repeats the operation.

    Reading arrays takes some contestants only microseconds, and the first repetition takes several times as long as the others,
    because another process has used the processor before. More repetitions make it count less.
    """
    name, way = CASES[case]
    return 4 * TIMES if name.endswith("arrays") and way == "read" else TIMES


class Pickle:
    """pickle with the highest protocol, and the base class of the others, which override `write` and `read`."""

    packages: tuple[str, ...] = ("numpy",)

    def __init__(self) -> None:
        self._name = ""
        self._object: Any = None
        self._written: Any = None

    def versions(self) -> dict[str, str]:
        return {package: str(importlib.import_module(package).__version__) for package in self.packages}

    def prepare(self, obj: Any) -> None:
        """Prepare the contestant for an object, for example by allocating memory."""

    def write(self, obj: Any) -> Any:
        """Serialize an object."""
        return pickle.dumps(obj, protocol=pickle.HIGHEST_PROTOCOL)

    def read(self, written: Any) -> Any:
        """Deserialize an object."""
        return pickle.loads(written)

    def ready(self, case: str) -> None:
        """Make the object of the case and serialize it, unless this was done before."""
        name, _ = CASES[case]
        if name != self._name:
            self._name, self._written = "", None
            self._object = OBJECTS[name]()
            self.prepare(self._object)
            self._written = self.write(self._object)
            self._name = name

    def run(self, case: str) -> Any:
        """Repeat the operation, and return the last result. The first run of a case, which is not timed, makes its object."""
        self.ready(case)
        _, way = CASES[case]
        if way == "write":
            for _ in range(times(case)):
                result = self.write(self._object)
            return result
        for _ in range(times(case)):
            result = self.read(self._written)
        return result

    def answer(self, case: str, result: Any) -> Any:
        """Describe the object that was read. A serialized object is deserialized first."""
        obj = self.read(result) if CASES[case][1] == "write" else result
        if isinstance(obj, dict):
            keys = list(obj)
            return [
                len(obj),
                [str(key) for key in keys[:3]],
                [_described(obj[key]) for key in (keys[0], keys[50], keys[-1])],
            ]
        return [len(obj), [_described(obj[place]) for place in (0, 50, -1)]]


def _described(value: Any) -> Any:
    if hasattr(value, "dtype"):
        return [str(value.dtype), list(value.shape), float(value.sum())]
    return sorted(value) if isinstance(value, set) else value


class Cloudpickle(Pickle):
    """cloudpickle; its output is read with pickle."""

    packages = ("numpy", "cloudpickle")

    def write(self, obj: Any) -> Any:
        import cloudpickle

        return cloudpickle.dumps(obj, protocol=pickle.HIGHEST_PROTOCOL)


class CratonNew(Pickle):
    """Craton's containers, in new memory."""

    def versions(self) -> dict[str, str]:
        from craton import _native

        return {**super().versions(), "craton": _native.__version__}

    def write(self, obj: Any) -> Any:
        from craton.serialize import serialize

        return serialize(obj)

    def read(self, written: Any) -> Any:
        from craton.serialize import deserialize

        return deserialize(written)


class Craton(CratonNew):
    """Craton's store in this process."""

    def write(self, obj: Any) -> Any:
        import craton

        return craton.put(obj)

    def read(self, written: Any) -> Any:
        import craton

        return craton.get(written)


class CratonContainer(CratonNew):
    """Craton's containers, in memory that was allocated and written to before."""

    def prepare(self, obj: Any) -> None:
        from craton.serialize import serialize

        size = len(serialize(obj))
        import numpy as np

        memory = np.zeros(size + 64, np.uint8)
        skipped = -memory.ctypes.data % 64
        memory[:] = 1  # written to, so that the operating system provides its pages now
        self._memory = memoryview(memory)[skipped : skipped + size]

    def write(self, obj: Any) -> Any:
        from craton.serialize import encode
        from craton.serialize.container import write_container

        write_container(encode(obj), self._memory)
        return self._memory


class Arrow(Pickle):
    """Arrow IPC: a message for every array."""

    packages = ("numpy", "pyarrow")

    def write(self, obj: Any) -> Any:
        import pyarrow as pa

        items = list(obj.values()) if isinstance(obj, dict) else obj
        if not hasattr(items[0], "dtype"):
            raise TypeError("not an object of arrays")
        sink = pa.BufferOutputStream()
        for item in items:
            pa.ipc.write_tensor(pa.Tensor.from_numpy(item), sink)
        return (list(obj) if isinstance(obj, dict) else None, sink.getvalue())

    def read(self, written: Any) -> Any:
        import pyarrow as pa

        keys, buffer = written
        source = pa.BufferReader(buffer)
        items = [pa.ipc.read_tensor(source).to_numpy() for _ in range(100)]
        return items if keys is None else dict(zip(keys, items, strict=True))


class Memcpy(Pickle):
    """Copies the items of all arrays, one after another, to memory that was written to before."""

    def prepare(self, obj: Any) -> None:
        import numpy as np

        items = list(obj.values()) if isinstance(obj, dict) else obj
        if not hasattr(items[0], "dtype"):
            raise TypeError("not an object of arrays")
        self._source = np.concatenate(items)
        self._target = np.ones_like(self._source)
        self._keys = list(obj) if isinstance(obj, dict) else None

    def write(self, obj: Any) -> Any:
        import numpy as np

        np.copyto(self._target, self._source)
        return self._target

    def read(self, written: Any) -> Any:
        self._source[:] = written
        items = list(self._source.reshape(100, -1))
        return items if self._keys is None else dict(zip(self._keys, items, strict=True))


class Ray(Pickle):
    """Ray's object store on this machine."""

    packages = ("numpy", "ray")

    def __init__(self) -> None:
        super().__init__()
        import numpy as np
        import ray

        self._ray = ray
        ray.init(
            num_cpus=1,
            object_store_memory=RAY_BYTES,
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
        )
        filling = np.ones(RAY_BYTES // 40, np.uint8)
        refs = [
            ray.put(filling) for _ in range(36)
        ]  # written to, so that the operating system provides the pages of the store now
        del refs

    def write(self, obj: Any) -> Any:
        return self._ray.put(obj)

    def read(self, written: Any) -> Any:
        return self._ray.get(written)


def open_contestant(name: str, options: dict[str, Any]) -> Contestant:
    """Return a contestant; there are no options."""
    kinds = {
        "pickle": Pickle,
        "craton": Craton,
        "craton-container": CratonContainer,
        "craton-new": CratonNew,
        "cloudpickle": Cloudpickle,
        "arrow": Arrow,
        "memcpy": Memcpy,
        "ray": Ray,
    }
    return kinds[name]()


def table(report: dict[str, Any]) -> str:
    """Return the medians as text: microseconds of one repetition, and the ratio of pickle's time to it."""
    names = list(report["summary"])
    lines = [["", *names]]
    for case, results in report["cases"].items():
        cells = [case]
        for name in names:
            result = results.get(name, {"status": "-"})
            if result["status"] != "ok":
                cells.append("-" if result["status"] == "failed" else str(result["status"]))
                continue
            once = result["median"] / times(case) * 1e6
            faster = f" {1 / result['ratio']:8,.2f}×" if "ratio" in result and name != report["baseline"] else ""
            cells.append(f"{once:,.1f}{faster}")
        lines.append(cells)
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    rows = [
        "  ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))])
        for line in lines
    ]
    said = (
        f"Microseconds, medians of {report['settings']['repeat']} runs of {TIMES}, or {4 * TIMES} for reading arrays; "
        f"×: how many times faster than {report['baseline']}."
    )
    return "\n".join([report["title"], said, "", *rows])


def bars(report: dict[str, Any]) -> str:
    """Return as text how many times faster than others the store is, its target values, and whether it reaches them."""
    lines = []
    for case, results in report["cases"].items():
        name, way = CASES[case]
        arrays = name.endswith("arrays")
        if arrays and way == "write":
            wanted = {"memcpy": 0.8, "ray": 1.5}
        elif arrays:
            wanted = {"pickle": 1000.0, "ray": 1.0}
        else:
            wanted = {"pickle": 1 / 1.1}
        ours = results.get("craton", {"status": "-"})
        for other, least in wanted.items():
            theirs = results.get(other, {"status": "-"})
            if ours["status"] == theirs["status"] == "ok":
                times = theirs["median"] / ours["median"]
                reached = "yes" if times >= least else "NO"
                lines.append(f"{case:24}{times:12,.2f} × {other:8} at least {least:8,.2f}  {reached}")
    return "\n".join(["craton against others, by medians:", "", *lines])


def main(argv: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.store.serialization", description=__doc__.splitlines()[0])
    command.add_options(parser, contestants=CONTESTANTS, repeat=15)
    parser.add_argument(
        "--objects", default=",".join(OBJECTS), help="comma-separated, from the four objects (default: all)"
    )
    parser.set_defaults(baseline="pickle", warm_memory=0.5)
    given = parser.parse_args(argv)
    objects = command.chosen(parser, given.objects, tuple(OBJECTS), "object")
    names = command.chosen(parser, given.contestants, (*CONTESTANTS, "ray"), "contestant")
    benchmark = Benchmark(
        name="serialization",
        title="Serialization: Ray's four objects",
        module="bench.store.serialization",
        cases=[Case(case) for case, (name, _) in CASES.items() if name in objects],
        entries=command.entries(names, {}),
        settings={"times": TIMES, "started": time.time()},
        **{**command.limits(given), "warm_up": max(given.warm_up, 1)},
    )
    report = command.execute(given, benchmark, "serialization")
    text = f"{table(report)}\n\n{bars(report)}"
    print(f"\n{text}")
    if not given.no_save:
        (given.output / "serialization.txt").write_text(text + "\n", encoding="utf-8")
    ours = report["summary"].get("craton")
    return 1 if ours and ours["right"] < ours["cases"] else 0


if __name__ == "__main__":
    sys.exit(main())
