"""The process of one turn of `bench.ml.kmeans`: fits one model, and prints the seconds and the centres."""

from __future__ import annotations

import json
import sys
import time
import warnings
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["main"]


def fit(options: dict[str, Any]) -> tuple[Any, float]:
    """Fit the contestant's model, and return it and the seconds that it took."""
    mapped = "table" in options
    name = options["contestant"]
    init = np.array(np.load(options["array"], mmap_mode="r")[: options["clusters"]])
    given = {"init": init, "n_init": 1, "max_iter": options["iterations"], "tol": 0.0}
    if name == "scikit-learn":
        from sklearn.cluster import KMeans as Peer

        data = np.load(options["array"], mmap_mode="r" if mapped else None)
        began = time.perf_counter()
        model = Peer(options["clusters"], **given).fit(data)
        return model, time.perf_counter() - began
    from craton.ml import KMeans
    from craton.store import Store

    ours = KMeans(options["clusters"], **given)
    if not mapped or name == "craton-mapped":
        data = np.load(options["array"], mmap_mode="r" if mapped else None)
        began = time.perf_counter()
        return ours.fit(data), time.perf_counter() - began
    with Store.open(options["limit"], directory=options["folder"]) as store:
        began = time.perf_counter()
        with pa.OSFile(options["table"]) as file:
            reader = pa.ipc.open_file(file)
            batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
            ours.fit(pa.RecordBatchReader.from_batches(reader.schema, batches), store=store)
        return ours, time.perf_counter() - began


def main(arguments: list[str]) -> int:
    """Run the turn that the options, one JSON object, describe."""
    warnings.simplefilter("ignore")
    model, seconds = fit(json.loads(arguments[0]))
    details = {
        "centers": model.cluster_centers_.tolist(),
        "inertia": float(model.inertia_),
        "iterations": int(model.n_iter_),
    }
    print(json.dumps({"seconds": {"fit": seconds}, "details": details}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
