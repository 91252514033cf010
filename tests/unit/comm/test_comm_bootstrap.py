"""How ranks find each other, and who is not answered."""

from __future__ import annotations

import socket
import threading

import pytest

import craton.comm
from craton.comm.errors import RankFailed
from craton.comm.own import Endpoint, connect

KEY = b"k" * 32


def both(first, second):
    """Run two functions at the same time; return what they return or raise."""
    found = {}

    def run(name, function):
        try:
            found[name] = function()
        except Exception as error:
            found[name] = error

    threads = [threading.Thread(target=run, args=(name, function)) for name, function in enumerate((first, second))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found[0], found[1]


def closed(one):
    if isinstance(one, Exception):
        return one
    one.close()
    return one.rank, one.size


@pytest.mark.parametrize("tcp", [False, True])
def test_equal_keys(tcp):
    endpoints = [Endpoint.bind(tcp=tcp) for _ in range(2)]
    addresses = [endpoint.address for endpoint in endpoints]
    found = both(*(lambda rank=rank: connect(endpoints[rank], rank, addresses, KEY) for rank in range(2)))
    assert list(map(closed, found)) == [(0, 2), (1, 2)]


@pytest.mark.parametrize("tcp", [False, True])
def test_different_keys(tcp):
    endpoints = [Endpoint.bind(tcp=tcp) for _ in range(2)]
    addresses = [endpoint.address for endpoint in endpoints]
    first, second = both(
        lambda: connect(endpoints[0], 0, addresses, KEY, timeout=1.0),
        lambda: connect(endpoints[1], 1, addresses, b"x" * 32, timeout=5.0),
    )
    assert isinstance(first, RankFailed)
    assert first.rank == 1
    assert isinstance(second, ConnectionError)
    assert "keys or lists of addresses differ" in str(second)


def test_a_rank_that_never_comes():
    endpoints = [Endpoint.bind() for _ in range(2)]
    addresses = [endpoint.address for endpoint in endpoints]
    with pytest.raises(RankFailed, match=r"rank 1 has failed: it did not connect within 0.3 s"):
        connect(endpoints[0], 0, addresses, KEY, timeout=0.3)
    # The endpoint of rank 0 is gone now.
    with pytest.raises(RankFailed, match="rank 0 has failed"):
        connect(endpoints[1], 1, addresses, KEY, timeout=0.3)


def _tcp_port(endpoint: Endpoint) -> int:
    """The port that an endpoint listens at: the one of this process's new listening sockets."""
    with open("/proc/net/tcp") as file:
        listening = {int(line.split()[1].split(":")[1], 16) for line in file.readlines()[1:] if line.split()[3] == "0A"}
    for port in listening:
        if port.to_bytes(2, "little") and _varint(port) in endpoint.address:
            return port
    raise AssertionError("the endpoint does not listen")


def _varint(number: int) -> bytes:
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def test_foreign_and_malformed_peers():
    """They get nothing but a nonce, and do not keep the ranks from each other."""
    endpoints = [Endpoint.bind(tcp=True) for _ in range(2)]
    addresses = [endpoint.address for endpoint in endpoints]
    port = _tcp_port(endpoints[0])
    answers = []

    def stranger(data):
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            connection.sendall(data)
            got = b""
            try:
                while more := connection.recv(4096):
                    got += more
            except ConnectionError:
                pass
            answers.append(got)

    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(5)]
    given = [b"GET / HTTP/1.1\r\n\r\n", b"CrCo\0\0\0\1" + bytes(76), b"\xff" * 5000, bytes(84)]
    threads = [threading.Thread(target=stranger, args=(data,)) for data in given]
    for thread in threads:
        thread.start()
    found = both(*(lambda rank=rank: connect(endpoints[rank], rank, addresses, KEY) for rank in range(2)))
    for thread in threads:
        thread.join()
    for connection in silent:
        connection.close()
    assert list(map(closed, found)) == [(0, 2), (1, 2)]
    # The magic and a nonce; and 32 zeros for one that has sent the length of a proof.
    assert len(answers) == len(given)
    assert all(len(answer) in (0, 40, 72) and answer[40:] == bytes(len(answer[40:])) for answer in answers), answers


def test_wrong_arguments():
    endpoint = Endpoint.bind()
    with pytest.raises(ValueError, match="at least 16 bytes"):
        connect(endpoint, 0, [endpoint.address], b"short")
    with pytest.raises(ValueError, match="rank must be from 0 to 0"):
        connect(endpoint, 1, [endpoint.address], KEY)
    other = Endpoint.bind()
    with pytest.raises(ValueError, match="not that of the endpoint"):
        connect(endpoint, 0, [other.address], KEY)
    with pytest.raises(ValueError, match="connects once"):
        connect(endpoint, 0, [endpoint.address], KEY)
    with pytest.raises(ValueError, match=r"not one that Endpoint\.bind"):
        connect(other, 0, [other.address, b"nonsense"], KEY)
    with pytest.raises(ValueError, match="cannot listen at"):
        Endpoint.bind("192.0.2.1")


def test_names():
    assert craton.comm.available()[0] == "own"
    with pytest.raises(ValueError, match="there is no communicator 'tin can': use one of own"):
        craton.comm.bind("tin can")
    with pytest.raises(ValueError, match="no launcher of their own"):
        craton.comm.world("own")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    assert craton.comm.available() == ["own"]
    with pytest.raises(ModuleNotFoundError, match=r"needs the package mpi4py: pip install 'craton\[mpi\]'"):
        craton.comm.bind("mpi")


def test_a_single_rank():
    endpoint = craton.comm.bind()
    with craton.comm.connect("own", endpoint, 0, [endpoint.address], KEY) as comm:
        assert (comm.rank, comm.size, comm.allreduce(2), comm.alltoall(["x"])) == (0, 1, 2, ["x"])
        comm.send("to itself", 0, 3)
        assert comm.receive(0, 3) == "to itself"
    with pytest.raises(craton.comm.CommunicatorClosed):
        comm.barrier()
