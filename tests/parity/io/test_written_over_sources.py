"""Each of pandas' writers overwrites a file from which frames were read: the frames keep their rows, which are also written."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pandas
import pytest

import craton
import craton.pandas

WRITERS = [
    "to_pickle",
    "to_string",
    "to_html",
    "to_markdown",
    "to_latex",
    "to_xml",
    "to_stata",
    "to_orc",
    "to_json",
    "to_csv",
]
TABLE = pandas.DataFrame({"a": [1, 2, 3], "s": ["x", "y", "z"]})


def _written(pd: Any, writer: str, whole: bool, named: bool, path: Path) -> list[Any]:
    """Overwrite a file; return the writer's result, the new content or the error, and the rows of three frames that read the file."""
    TABLE.to_parquet(path)
    source = pd.read_parquet(path)
    chosen = source[source["a"] > 1]
    later = source.sort_values("s", ascending=False)["s"].shift()
    written = chosen if whole else chosen["a"]
    seen: list[Any] = []
    if not hasattr(written, writer):
        return seen
    first = {"to_pickle": "path", "to_stata": "path", "to_orc": "path", "to_xml": "path_or_buffer"}
    first |= {"to_json": "path_or_buf", "to_csv": "path_or_buf"}
    try:
        if named:
            seen.append(getattr(written, writer)(**{first.get(writer, "buf"): path}))
        else:
            seen.append(getattr(written, writer)(str(path)))
        content = path.read_bytes()
        if writer == "to_pickle":
            content = pandas.read_pickle(path).to_csv().encode()
        seen.append(len(content) if writer in ("to_stata", "to_orc") else content)
    except (ImportError, ValueError) as error:
        seen.append(f"{type(error).__name__}: {error}")
    return [
        *seen,
        chosen["a"].tolist(),
        later.tolist(),
        source["a"].sum(),
        sorted(one.name for one in path.parent.iterdir()),
    ]


@pytest.mark.parametrize("small_rows", [0, 100_000])
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("writer", WRITERS)
def test_a_source_is_overwritten(writer: str, whole: bool, named: bool, small_rows: int, tmp_path: Path) -> None:
    expected = _written(pandas, writer, whole, named, tmp_path / "f.data")
    with craton.option_context(small_rows=small_rows):
        assert _written(craton.pandas, writer, whole, named, tmp_path / "f.data") == expected


def test_what_cannot_be_written_leaves_the_file(tmp_path: Path) -> None:
    path = tmp_path / "f.data"
    TABLE.to_parquet(path)
    with craton.option_context(small_rows=0):
        source = craton.pandas.read_parquet(path)
        broken = source.assign(f=[lambda: 1, None, None])
        with pytest.raises((AttributeError, pickle.PicklingError), match="pickle"):
            broken.to_pickle(path)
        assert pandas.read_parquet(path).equals(TABLE)
        assert source["a"].sum() == 6
    assert [one.name for one in tmp_path.iterdir()] == ["f.data"]
