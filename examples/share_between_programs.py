"""Two programs that share one copy of their data: this one stores a model and a table, and a second one reads them in place."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa

import craton

# The second program. CRATON_STORE in its environment is the address of the store that it connects to.
SCORER = """
import craton

model = craton.cache("model")
print("features:", ", ".join(model["features"]))
print("weights are writable:", model["weights"].flags.writeable)

clients = craton.cache("clients")
print("rows:", clients.num_rows, "columns:", clients.num_columns)
score = sum(clients[name].to_numpy() * weight for name, weight in zip(model["features"], model["weights"]))
for name in model["features"]:
    print(f"mean of {name}: {clients[name].to_numpy().mean():.3f}")

best = score.argsort()[::-1][:5]
print("the best five:")
for row in best:
    print(f"  client {row:7} {score[row]:.3f}")
craton.cache("scores", score)
"""


def main() -> None:
    random = np.random.default_rng(7)
    rows = 1_000_000
    features = ["age", "orders", "visits"]
    clients = pa.table({name: random.gamma(2.0, 1.0 + place, rows) for place, name in enumerate(features)})
    craton.cache("model", {"features": features, "weights": np.array([0.2, 1.5, 0.3])})
    craton.cache("clients", clients)

    store = craton.default_store()
    address = store.serve()
    print("put:")
    print("the model and", f"{clients.nbytes:,}", "bytes of clients")
    copied = store.counters()["copied"]
    print("copied on the way in:", bool(copied >= clients.nbytes), end="\n\n")

    print("the second program:", flush=True)
    subprocess.run([sys.executable, "-c", SCORER], env={**os.environ, "CRATON_STORE": address}, check=True)

    scores = craton.cache("scores")  # named objects of the second program stay in the store after its end
    print("\nback in the first one:")
    print("scores:", f"{len(scores):,}", "mean:", f"{scores.mean():.3f}")
    print("only the scores were copied:", store.counters()["copied"] - copied - scores.nbytes < 1000)


if __name__ == "__main__":
    main()
