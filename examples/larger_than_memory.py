"""A dataset that is larger than the store's memory limit: it is written once and scanned twice; the counters show how."""

from __future__ import annotations

import tempfile

import numpy as np
import pyarrow as pa

from craton.store import LocalitySet, Store

LIMIT = 32 << 20
DAYS = 24
ROWS = 150_000


def write(readings: LocalitySet) -> None:
    """Append one page per day, with the measurements of all sensors."""
    for day in range(DAYS):
        random = np.random.default_rng(day)
        sensor = random.integers(0, 8, ROWS)
        readings.append(
            {"day": np.full(ROWS, day, "int16"), "sensor": sensor, "value": random.normal(20.0 + sensor, 2.0, ROWS)}
        )


def means(readings: LocalitySet) -> np.ndarray:
    """Compute the mean of each sensor in one scan of all pages."""
    total, count = np.zeros(8), np.zeros(8)
    for batch in readings:
        sensor = batch["sensor"].to_numpy()
        total += np.bincount(sensor, batch["value"].to_numpy(), minlength=8)
        count += np.bincount(sensor, minlength=8)
    return total / count


def deviations(readings: LocalitySet, middle: np.ndarray) -> np.ndarray:
    """Compute the standard deviation of each sensor from its mean, in a second scan."""
    total, count = np.zeros(8), np.zeros(8)
    for batch in readings:
        sensor = batch["sensor"].to_numpy()
        total += np.bincount(sensor, (batch["value"].to_numpy() - middle[sensor]) ** 2, minlength=8)
        count += np.bincount(sensor, minlength=8)
    return np.sqrt(total / count)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Store.open(LIMIT, directory=folder) as store:
        readings = store.create_set("readings")
        write(readings)
        size = readings.attributes()["nbytes"]
        print(f"{len(readings)} pages, {size / LIMIT:.1f} times the memory limit", end="\n\n")

        middle = means(readings)
        spread = deviations(readings, middle)
        print("sensor   mean  deviation")
        for sensor in range(8):
            print(f"{sensor:6} {middle[sensor]:6.2f} {spread[sensor]:10.2f}")

        counted = store.counters()
        print("\nWhat the store did")
        print("never above the limit:     ", counted["page_memory"] <= LIMIT)
        print("pages found or read:       ", counted["hits"] + counted["misses"])
        print("some were found in memory: ", counted["hits"] > 0)
        print("some had to be read:       ", counted["read"] > 0)
        print("each was written once:     ", counted["written"] < 1.01 * size)

        readings.end_lifetime()  # the set will not be read again, so its pages are evicted first
        store.create_set("next").append(pa.table({"n": np.arange(3_000_000)}))
        print("its pages were evicted:    ", store.counters()["evicted_ended"] > 0)


if __name__ == "__main__":
    main()
