"""Row labels of an Arrow floating dtype with NaN: in pandas such an Index equals only itself and its views."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support import check


def make(pd: Any) -> Any:
    def floats(*values: Any) -> Any:
        return pd.array(pa.array(values, pa.float64(), from_pandas=False), dtype="double[pyarrow]")

    return pd.DataFrame(
        {"y": floats(1.0, 1.0, np.nan), "k": pd.array(["a", "a", "b"], dtype="str"), "z": floats(1.0, 2.0, 3.0)}
    )


def zeros(pd: Any) -> Any:
    frame = make(pd)
    frame["y"] = pd.array(pa.array([-0.0, 0.0, np.nan], pa.float64(), from_pandas=False), dtype="double[pyarrow]")
    return frame


FRAMES = {
    "set": lambda pd: make(pd).set_index("y"),
    "set two": lambda pd: make(pd).set_index(["y", "k"]),
    "sorted": lambda pd: make(pd).set_index("y").sort_values("z", ascending=False),
    "filtered": lambda pd: make(pd).set_index("y")[lambda f: f["z"] > 1],
    "in memory": lambda pd: pd.DataFrame(make(pd).set_index("y").to_dict("series")),
    "applied": lambda pd: make(pd).set_index("y").apply(lambda column: column),
    "grouped, both zeros": lambda pd: zeros(pd).groupby(["k", "y"])[["z"]].sum(),
}

USES = {
    "mask": lambda f: f[f["z"].isin(f["z"])],
    "python mask": lambda f: f[f["z"].map(lambda v: v > 1)],
    "mask of ranks": lambda f: f[f["z"].rank(method="average") > 1],
    "sum": lambda f: f["z"] + f["z"].apply(lambda v: v * 2),
    "windows": lambda f: f["z"].expanding().sum() + f["z"].rolling(1).sum(),
    "assign": lambda f: f.assign(w=f["z"].map(lambda v: v + 1), u=f["z"].ewm(span=2).mean()),
    "where": lambda f: f["z"].where(f["z"].isin([1.0, 3.0])),
    "interpolated": lambda f: f["z"] - f["z"].astype("float64").interpolate(),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("made", FRAMES)
def test_operands_with_the_index_of_one_frame_are_aligned_without_a_search(made: str, use: str) -> None:
    check(lambda pd: USES[use](FRAMES[made](pd)), native=None)
