"""Readers and writers of URLs against pandas: a local web server, fsspec's file systems, and a local server of the S3 protocol."""

from __future__ import annotations

import functools
import http.server
import io
import os
import threading
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pandas
import pytest
from support import check

import craton
import craton.pandas as cp

ROWS = pandas.DataFrame(
    {"i": range(600), "f": [1.5, None, -2.0] * 200, "s": ["x", None, "yy"] * 200, "k": [1, 2] * 300}
)
WRITERS: dict[str, Any] = {
    "parquet": lambda frame, path, **named: frame.to_parquet(path, row_group_size=100, **named),
    "csv": lambda frame, path, **named: frame.to_csv(path, index=False, **named),
    "feather": lambda frame, path, **named: frame.to_feather(path, **named),
    "json": lambda frame, path, **named: frame.to_json(path, orient="records", lines=True, **named),
}
READERS: dict[str, Any] = {
    "parquet": lambda pd, path, **named: pd.read_parquet(path, **named),
    "csv": lambda pd, path, **named: pd.read_csv(path, **named),
    "feather": lambda pd, path, **named: pd.read_feather(path, **named),
    "json": lambda pd, path, **named: pd.read_json(path, lines=True, **named),
}


def steps(frame: Any) -> tuple[Any, ...]:
    """Filter, look, group, add a column, take a number."""
    some = frame[frame["i"] > 300]
    return some.head(3), frame.groupby("s")["f"].sum(), frame.assign(z=frame["i"] * 2)["z"].max(), len(frame), frame


# -- web servers ------------------------------------------------------------------------------------------------------


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files; answers requests of ranges if the path does not begin with ``/whole``."""

    def log_message(self, *_: Any) -> None: ...

    def send_head(self) -> Any:
        ranges = self.headers.get("Range", "")
        path = Path(self.translate_path(self.path))
        if self.path.startswith("/whole") or not path.is_file():
            return super().send_head()
        data = path.read_bytes()
        start, end, code = 0, len(data) - 1, 200
        if ranges.startswith("bytes="):
            first, _, last = ranges[6:].partition("-")
            start = int(first) if first else max(len(data) - int(last), 0)
            end, code = min(int(last) if first and last else end, end), 206
        self.send_response(code)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(end - start + 1))
        self.send_header("Last-Modified", self.date_time_string(path.stat().st_mtime))
        self.send_header("ETag", f'"{path.stat().st_mtime_ns}"')
        if code == 206:
            self.send_header("Content-Range", f"bytes {start}-{end}/{len(data)}")
        self.end_headers()
        return io.BytesIO(data[start : end + 1])


@pytest.fixture
def web(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The URL of a web server, and its folder."""
    (tmp_path / "web" / "whole").mkdir(parents=True)
    handler = functools.partial(_Handler, directory=str(tmp_path / "web"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", tmp_path / "web"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("folder", ["", "whole/"])
def test_web_servers(web: tuple[str, Path], kind: str, folder: str) -> None:
    url, path = web
    WRITERS[kind](ROWS, path / folder / "x")
    check(lambda pd: steps(READERS[kind](pd, f"{url}/{folder}x")), native=None)

    def missing(pd: Any) -> Any:
        try:
            return READERS[kind](pd, f"{url}/{folder}nope")
        except urllib.error.HTTPError as error:
            error.close()  # pandas leaves the connection open
            return type(error), str(error)

    check(missing, native=None)


def test_ranges_of_a_web_server_are_planned(web: tuple[str, Path]) -> None:
    url, path = web
    ROWS.to_parquet(path / "x.parquet", row_group_size=100)
    check(lambda pd: pd.read_parquet(f"{url}/x.parquet").query("i > 300")["f"].sum())


def test_a_file_that_changes_on_a_web_server(web: tuple[str, Path]) -> None:
    url, path = web
    ROWS.to_parquet(path / "x.parquet")
    with craton.option_context(small_rows=0):
        frame = cp.read_parquet(f"{url}/x.parquet")
        ROWS.head(10).to_parquet(path / "x.parquet")
        with pytest.raises(craton.errors.SourceChanged):
            frame["i"].sum()
        assert cp.read_parquet(f"{url}/x.parquet")["i"].sum() == 45


# -- file systems of fsspec -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", READERS)
def test_memory(kind: str) -> None:
    url = f"memory://urls/x.{kind}"

    def program(pd: Any) -> Any:
        WRITERS[kind](pd.DataFrame(ROWS), url)
        frame = READERS[kind](pd, url)
        first = steps(frame)
        WRITERS[kind](frame[frame["i"] > 300].reset_index(drop=True), url)
        return first, steps(READERS[kind](pd, url))

    check(program, native=None)
    fsspec.filesystem("memory").rm(f"/urls/x.{kind}")


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_local_urls(tmp_path: Path, kind: str, form: str) -> None:
    """A local file is written by its URL while frames that were read by its path, or by its URL, are lazy."""
    path = tmp_path / "x"

    def program(pd: Any) -> Any:
        WRITERS[kind](pandas.DataFrame(ROWS), path)
        frame = READERS[kind](pd, form.format(path))
        first = steps(frame)
        WRITERS[kind](frame[frame["i"] > 300].reset_index(drop=True), f"file://{path}")
        return first, steps(READERS[kind](pd, f"file://{path}"))

    check(program, native=None)


def test_compressed_text_in_memory() -> None:
    for suffix in ("gz", "bz2", "xz", "zip"):
        url = f"memory://urls/x.csv.{suffix}"
        check(lambda pd, url=url: (ROWS.to_csv(url, index=False), steps(pd.read_csv(url)))[1], native=None)
        check(lambda pd, url=url: pd.read_csv(url, usecols=["i"], nrows=5), native=None)
        fsspec.filesystem("memory").rm(url.removeprefix("memory:/"))


# -- S3 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", READERS)
def test_objects(bucket: dict[str, Any], kind: str) -> None:
    url = f"s3://bucket/x.{kind}"

    def program(pd: Any) -> Any:
        WRITERS[kind](pd.DataFrame(ROWS), url, storage_options=bucket)
        frame = READERS[kind](pd, url, storage_options=bucket)
        first = steps(frame)
        WRITERS[kind](frame[frame["i"] > 300].reset_index(drop=True), url, storage_options=bucket)
        return first, steps(READERS[kind](pd, url, storage_options=bucket))

    check(program, native=None)
    check(lambda pd: READERS[kind](pd, "s3://bucket/nope", storage_options=bucket), native=None)


def test_objects_are_planned(bucket: dict[str, Any]) -> None:
    ROWS.to_parquet("s3://bucket/x.parquet", storage_options=bucket, row_group_size=100)
    ROWS.to_feather("s3://bucket/x.feather", storage_options=bucket)
    check(lambda pd: pd.read_parquet("s3://bucket/x.parquet", storage_options=bucket).query("i > 300")["f"].sum())
    check(lambda pd: pd.read_feather("s3://bucket/x.feather", storage_options=bucket).groupby("s")["i"].sum())
    check(lambda pd: pd.read_parquet("s3://bucket/x.parquet", storage_options=bucket, columns=["s", "i"]).tail(2))


def test_partitions_in_a_bucket(bucket: dict[str, Any]) -> None:
    ROWS.to_parquet("s3://bucket/t", partition_cols=["k"], storage_options=bucket)

    def program(pd: Any, **named: Any) -> Any:
        frame = pd.read_parquet("s3://bucket/t", storage_options=bucket, **named)
        return frame, frame.dtypes, frame.groupby("k", observed=True)["i"].sum(), len(frame)

    check(program, native=None)
    check(lambda pd: program(pd, filters=[("k", "==", 2)]), native=None)
    check(lambda pd: program(pd, columns=["k", "i"]), native=None)


@pytest.mark.parametrize("environment", [True, False])
def test_an_object_that_changes(
    bucket: dict[str, Any], server: str, environment: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of two versions are never mixed: the run fails, or returns the rows of one version."""
    named: dict[str, Any] = {"storage_options": bucket}
    if environment:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server)
        named = {}
    ROWS.to_parquet("s3://bucket/x.parquet", storage_options=bucket)
    with craton.option_context(small_rows=0):
        frame = cp.read_parquet("s3://bucket/x.parquet", **named)
        assert frame["i"].max() == 599
        ROWS.assign(i=ROWS["i"] + 1000).to_parquet("s3://bucket/x.parquet", storage_options=bucket)
        with pytest.raises(craton.errors.SourceChanged):
            frame["f"].sum()
        again = cp.read_parquet("s3://bucket/x.parquet", **named)
        assert again["i"].min() == 1000
        fsspec.filesystem("s3", **bucket).rm("bucket/x.parquet")
        with pytest.raises(craton.errors.SourceChanged):
            again["f"].sum()


def test_an_endpoint_of_the_environment(bucket: dict[str, Any], server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    ROWS.to_parquet("s3://bucket/x.parquet", storage_options=bucket)
    check(lambda pd: steps(pd.read_parquet("s3://bucket/x.parquet")))
    check(lambda pd: pd.read_parquet("s3://bucket/nope.parquet"), native=None)


def test_keys_that_are_wrong(bucket: dict[str, Any]) -> None:
    wrong = {**bucket, "client_kwargs": {**bucket["client_kwargs"], "endpoint_url": "http://127.0.0.1:9"}}

    def program(pd: Any) -> Any:
        try:
            return len(pd.read_parquet("s3://bucket/x.parquet", storage_options=wrong))
        except Exception as error:
            return type(error).__name__

    check(program, native=None)
    assert "AWS_ACCESS_KEY_ID" in os.environ
