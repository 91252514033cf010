"""A local server of the S3 protocol, for tests; they are skipped if moto and s3fs are not installed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": "us-east-1"}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of a server of the S3 protocol."""
    moto = pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    responses = pytest.importorskip("moto.s3.responses").S3Response
    served = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    served.start()
    host, port = served.get_host_and_port()
    lock, put = threading.Lock(), responses.put_object

    def put_alone(response: Any) -> Any:
        """Write an object. moto looks whether it is there, and then writes it; stores do that in one step."""
        with lock:
            return put(response)

    with mock.patch.object(responses, "put_object", put_alone):
        yield f"http://{host}:{port}"
    served.stop()


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Storage options for an empty bucket named ``bucket``."""
    import fsspec

    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    options = {
        "key": "testing",
        "secret": "testing",
        "client_kwargs": {"endpoint_url": server},
    }
    files = fsspec.filesystem("s3", **options)
    if files.exists("bucket"):
        files.rm("bucket", recursive=True)
    files.mkdir("bucket")
    yield options
    files.invalidate_cache()
