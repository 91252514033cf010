"""Sinks against pandas, with unusual targets, parameters and labels: the folder has the same contents afterwards."""

from __future__ import annotations

import contextlib
import io
import os
import re
import warnings

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import case_id

import craton
import craton.pandas as cp

FRAME = pandas.DataFrame(
    {
        "k": [3, 1, 2, 1],
        "f": [1.5, np.nan, 2.5, np.inf],
        "s": ["b", "a", None, "c"],
        "t": pandas.to_datetime(["2020-01-01", None, "2021-06-01", "1999-12-31"]),
        "b": [True, False, True, True],
        "u": ["é", "a,b", 'q"q', "x\ny"],
        "r": ["a\rb", "", "\r\n", "'"],
        "c": pandas.Categorical(["x", "y", None, "x"]),
    }
)
PARTS = FRAME.assign(
    p=["a/b", "ü x", "a=b%20c?#", "x'\"\\y"],
    q=[1, 2, 1, 2],
    n=["x", None, "y", "x"],
    e=["", "x", "y", "z"],
    fl=[1.5, np.nan, 2.0, 1e20],
    i=pandas.array([1, None, 2, 1], dtype="Int64"),
)
WRITERS = {
    "csv": lambda frame, path, **named: frame.to_csv(path, **named),
    "parquet": lambda frame, path, **named: frame.to_parquet(path, **named),
    "feather": lambda frame, path, **named: frame.to_feather(path, **named),
    "json": lambda frame, path, **named: frame.to_json(path, orient="records", lines=True, **named),
}


def ends(tmp_path, frame, write, prepare=None):
    """Write with pandas, with a plan, and with the small-data path; results, errors and files must be equal.

    After an error, each file may also be as it was before the write, because only pandas leaves partial files.
    """
    found = []
    for module, small in ((pandas, 0), (cp, 0), (cp, 1000)):
        folder = tmp_path / str(len(found))
        folder.mkdir()
        if prepare is not None:
            prepare(folder)
        given = frame.copy() if module is pandas else cp.DataFrame(frame)
        error = text = None
        with contextlib.chdir(folder), craton.option_context(small_rows=small), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                text = write(given, folder)
            except Exception as raised:
                error = (type(raised), str(raised).replace(str(folder), ""))
        found.append((error, text, _tree(folder)))
    for error, text, tree in found[1:]:
        assert error == found[0][0]
        assert text == found[0][1]
        if error is None:
            assert tree == found[0][2]
        else:
            assert not [name for name in tree if ".craton" in name]
            known = [found[0][2], _untouched(prepare, tmp_path)]
            assert all(any(one.get(name) == state for one in known) for name, state in tree.items())


def _untouched(prepare, tmp_path):
    folder = tmp_path / "untouched"
    if prepare is None:
        return {}
    if not folder.exists():
        folder.mkdir()
        prepare(folder)
    return _tree(folder)


def _tree(folder):
    found = {}
    for path in sorted(folder.rglob("*")):
        name = re.sub(r"[0-9a-f]{32}-\d+", "part", str(path.relative_to(folder)))
        state = path.lstat()
        link = os.readlink(path) if path.is_symlink() else None
        found[name] = (state.st_mode, state.st_nlink if path.is_file() else 0, link, _content(path))
    return found


def _content(path):
    if not path.is_file():
        return None
    data = path.read_bytes()
    with contextlib.suppress(pa.ArrowException):
        if data[:4] == b"PAR1":
            table = pq.read_table(pa.BufferReader(data))
            return repr(table.to_pydict()), repr(table.schema), repr(table.schema.metadata)
        if data[:6] == b"ARROW1":
            table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
            return repr(table.to_pydict()), repr(table.schema), repr(table.schema.metadata)
    return data


def _old(folder):
    (folder / "x").write_text("old")


TARGETS = {
    "path": (lambda d: d / "x", None),
    "relative": (lambda d: "x", None),
    "through a folder": (lambda d: "sub/../x", lambda d: (d / "sub").mkdir()),
    "bytes": (lambda d: os.fsencode(str(d / "x")), None),
    "nothing": (lambda d: "", None),
    "dot": (lambda d: ".", None),
    "slash": (lambda d: f"{d}/x/", None),
    "nul": (lambda d: f"{d}/x\0y", None),
    "long": (lambda d: f"{d}/{'x' * 300}", None),
    "longest": (lambda d: f"{d}/{'x' * 255}", None),
    "odd characters": (lambda d: d / "é 日 'q'\"#?%20", None),
    "number": (lambda d: 1.5, None),
    "list": (lambda d: ["x"], None),
    "existing": (lambda d: d / "x", lambda d: (_old(d), os.chmod(d / "x", 0o604))),
    "link": (lambda d: d / "l", lambda d: (_old(d), (d / "l").symlink_to("x"))),
    "dangling link": (lambda d: d / "l", lambda d: (d / "l").symlink_to("x")),
    "links in a circle": (lambda d: d / "l", lambda d: ((d / "l").symlink_to("m"), (d / "m").symlink_to("l"))),
    "link to a folder": (lambda d: d / "l", lambda d: ((d / "y").mkdir(), (d / "l").symlink_to("y"))),
    "in a linked folder": (lambda d: d / "l" / "x", lambda d: ((d / "y").mkdir(), (d / "l").symlink_to("y"))),
    "two names": (lambda d: d / "x", lambda d: (_old(d), os.link(d / "x", d / "y"))),
    "folder": (lambda d: d / "y", lambda d: (d / "y").mkdir()),
    "no folder": (lambda d: d / "no" / "x", None),
    "file as a folder": (lambda d: d / "x" / "y", _old),
    "file URL": (lambda d: f"file://{d}/x", None),
    "unknown URL": (lambda d: "nosuch://x", None),
}


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize("target", TARGETS)
def test_targets(tmp_path, form, target):
    path, prepare = TARGETS[target]
    ends(tmp_path, FRAME, lambda frame, folder: WRITERS[form](frame, path(folder)), prepare)


@pytest.mark.parametrize("form", WRITERS)
def test_open_files(tmp_path, form):
    def into(opened):
        def write(frame, folder):
            with opened(folder) as file:
                WRITERS[form](frame, file)

        return write

    for i, opened in enumerate(
        (
            lambda d: (d / "x").open("wb"),
            lambda d: (d / "x").open("w", encoding="utf-8"),
            lambda d: (d / "x").open("rb"),
            lambda d: io.BytesIO(),
            lambda d: io.StringIO(),
        )
    ):
        (tmp_path / str(i)).mkdir()
        ends(tmp_path / str(i), FRAME, into(opened), _old)


@pytest.mark.parametrize("form", WRITERS)
def test_umask(tmp_path, form):
    before = os.umask(0o077)
    try:
        ends(tmp_path, FRAME, lambda frame, folder: WRITERS[form](frame, folder / "x"))
    finally:
        os.umask(before)


LABELS = {
    "no rows": lambda f: f[f["k"] > 99],
    "no columns": lambda f: f[[]],
    "twice": lambda f: f[["k", "k"]],
    "numbers": lambda f: f[["k", "f"]].set_axis([1, 2], axis=1),
    "mixed": lambda f: f[["k", "f"]].set_axis([1, "b"], axis=1),
    "none": lambda f: f[["k", "f"]].set_axis([None, "b"], axis=1),
    "empty": lambda f: f[["k", "f"]].set_axis(["", "b"], axis=1),
    "levels": lambda f: f[["k", "f"]].set_axis(pandas.MultiIndex.from_tuples([("a", 1), ("b", 2)]), axis=1),
    "named columns": lambda f: f[["k", "f"]].rename_axis(columns="cols"),
    "index": lambda f: f.set_index("s"),
    "two levels": lambda f: f.set_index(["k", "s"]),
    "levels without names": lambda f: f.set_index(["k", "s"]).rename_axis([None, None]),
    "filtered": lambda f: f[f["k"] > 1],
    "named rows": lambda f: f.rename_axis("row"),
    "steps": lambda f: f.set_axis(pandas.RangeIndex(10, 18, 2)),
    "reversed": lambda f: f.iloc[::-1],
    "dates": lambda f: f.set_index("t"),
    "floats": lambda f: f.set_index("f"),
    "booleans": lambda f: f.set_index("b"),
    "categories": lambda f: f.set_index("c"),
    "same name": lambda f: f.set_index("k", drop=False),
    "number as a name": lambda f: f.set_index("k").rename_axis(5),
    "attrs": lambda f: (f.attrs.update({"a": 1}), f)[1],
}


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize("labels", LABELS)
def test_labels(tmp_path, form, labels):
    ends(tmp_path, FRAME, lambda frame, folder: WRITERS[form](LABELS[labels](frame), folder / "x"))


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("index", [True, False, None])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_labels_written_or_not(tmp_path, form, labels, index):
    ends(tmp_path, FRAME, lambda frame, folder: WRITERS[form](LABELS[labels](frame), folder / "x", index=index))


@pytest.mark.parametrize(
    "columns",
    [
        ["p"],
        ["q"],
        ["n"],
        ["e"],
        ["fl"],
        ["i"],
        ["b"],
        ["t"],
        ["c"],
        ["q", "n"],
        ["p", "q"],
        ["no"],
        ["q", "q"],
        "q",
        ("q",),
        [],
        [1],
        list(PARTS.columns),
    ],
    ids=case_id,
)
def test_partitions(tmp_path, columns):
    for i, change in enumerate((lambda f: f, lambda f: f.set_index("k"), lambda f: f[f["k"] > 1])):
        (tmp_path / str(i)).mkdir()
        ends(
            tmp_path / str(i),
            PARTS,
            lambda frame, folder, change=change: change(frame).to_parquet(folder / "x", partition_cols=columns),
        )


PLACES = {
    "folder": (lambda d: d / "x", lambda d: ((d / "x").mkdir(0o700), (d / "x" / "old").write_text("old"))),
    "parts": (lambda d: d / "x", lambda d: PARTS.to_parquet(d / "x", partition_cols=["q"])),
    "file": (lambda d: d / "x", _old),
    "link": (lambda d: d / "x", lambda d: ((d / "y").mkdir(), (d / "x").symlink_to("y"))),
    "dangling link": (lambda d: d / "x", lambda d: (d / "x").symlink_to("y")),
    "relative": (lambda d: "x", None),
    "slash": (lambda d: f"{d}/x/", None),
    "no parent": (lambda d: d / "no" / "x", None),
    "long": (lambda d: d / ("x" * 300), None),
    "URL": (lambda d: f"file://{d}/x", None),
    "nothing": (lambda d: "", None),
    "none": (lambda d: None, None),
    "buffer": (lambda d: io.BytesIO(), None),
}


@pytest.mark.parametrize("place", PLACES)
def test_places_of_partitions(tmp_path, place):
    path, prepare = PLACES[place]
    # Arrow creates the folders of partitions in threads. If none can be created, its error names any of them.
    given = PARTS[PARTS["q"] == 1] if place == "file" else PARTS
    ends(tmp_path, given, lambda frame, folder: frame.to_parquet(path(folder), partition_cols=["q"]), prepare)


def test_partitions_of_nothing(tmp_path):
    ends(tmp_path, PARTS, lambda frame, folder: frame[frame["k"] > 99].to_parquet(folder / "x", partition_cols=["q"]))


OPTIONS = {
    "parquet": [{"compression": "no"}, {"compression": {"k": "gzip"}}, {"engine": "no"}, {"index": 1}, {"nope": 1}]
    + [{"row_group_size": size} for size in (1, 0, -1, "x", True)]
    + [{"storage_options": {"a": 1}}, {"filesystem": "x"}, {"coerce_timestamps": "ms"}],
    "feather": [{"compression": "no"}, {"compression": "zstd"}, {"nope": 1}, {"version": 3}]
    + [{"chunksize": size} for size in (1, 0, -1, "x", True)],
    "csv": [{"chunksize": size} for size in (1, 0, -1, 2.5, "x", True, None)]
    + [{"sep": sep} for sep in (";", "", ";;", None, "\n", '"', "é", ".", "-")]
    + [{"na_rep": text} for text in ("NA", ",x", "\r", None, 1)]
    + [{"quoting": 1}, {"quoting": 3}, {"quoting": 9}, {"quotechar": "'"}, {"lineterminator": "\r\n"}]
    + [{"columns": ["s", "k"]}, {"columns": []}, {"columns": ["no"]}, {"columns": "k"}, {"columns": ["k", "k"]}]
    + [{"header": False}, {"header": list("abcdefgh")}, {"header": ["x"]}, {"header": []}, {"index_label": "row"}]
    + [{"mode": mode} for mode in ("a", "x", "r", "wb")]
    + [{"encoding": name} for name in ("latin-1", "utf-16", "ascii", "no")]
    + [{"date_format": "%d/%m/%Y"}, {"date_format": 1}, {"decimal": ","}, {"decimal": "ab"}, {"doublequote": False}]
    + [{"float_format": "%.2f"}, {"float_format": "zz"}, {"compression": "no"}, {"errors": "no"}, {"nope": 1}],
    "json": [{"double_precision": size} for size in (16, -1, 0)]
    + [{"date_format": "no"}, {"date_format": "iso", "date_unit": "ns"}, {"date_unit": "x"}, {"indent": 2}]
    + [{"mode": mode} for mode in ("a", "x")]
    + [{"index": True}, {"index": False}, {"force_ascii": False}, {"compression": "no"}, {"nope": 1}],
}


@pytest.mark.parametrize(
    ("form", "named"), [(form, named) for form, every in OPTIONS.items() for named in every], ids=case_id
)
def test_options(tmp_path, form, named):
    (tmp_path / "file").mkdir()
    ends(tmp_path / "file", FRAME, lambda frame, folder: WRITERS[form](frame, folder / "x", **named))
    if form in ("csv", "json"):
        (tmp_path / "text").mkdir()
        ends(tmp_path / "text", FRAME, lambda frame, folder: WRITERS[form](frame, None, **named))


def test_arguments_that_do_not_fit(tmp_path):
    for i, write in enumerate(
        (
            lambda frame, folder: frame.to_parquet(folder / "x", "pyarrow"),
            lambda frame, folder: frame.to_feather(),
            lambda frame, folder: frame.to_csv(folder / "x", ";"),
            lambda frame, folder: frame.to_parquet(path=folder / "x"),
            lambda frame, folder: frame[["k"]].to_csv(),
        )
    ):
        (tmp_path / str(i)).mkdir()
        ends(tmp_path / str(i), FRAME, write)


@pytest.mark.parametrize("form", WRITERS)
def test_a_file_onto_itself(tmp_path, form):
    readers = {"json": lambda path: cp.read_json(path, lines=True)}
    read = readers.get(form) or getattr(cp, f"read_{form}")
    frame = FRAME[["k", "f", "s"]]
    WRITERS[form](frame, tmp_path / "x")
    before = _content(tmp_path / "x")
    with craton.option_context(small_rows=0):
        again = read(tmp_path / "x")
        if form == "csv":
            again = again.set_index(again.columns[0]).rename_axis(None)
        WRITERS[form](again, tmp_path / "x")
    assert _content(tmp_path / "x") == before
