"""TLS between pools: traffic, refused peers and the reasons given, and attacks by a man in the middle."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import craton.actor as xo
from craton.actor.wire import addresses, auth, frames, keepalive, tls
from craton.actor.wire.link import HANDSHAKE_TIMEOUT
from craton.actor.wire.peers import Peers

sys.path.insert(0, str(Path(__file__).parents[1]))

from actors import Worker, free_port, of, program, until

OPENSSL = shutil.which("openssl")
pytestmark = pytest.mark.skipif(OPENSSL is None, reason="it makes certificates with the openssl command")


class Files:
    """Creates certificates and keys in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._authority("ca")
        for name in ("one", "two"):
            self._signed(name)
        self._authority("alone")  # self-signed

    def _run(self, *arguments: str) -> None:
        subprocess.run([str(OPENSSL), *arguments], cwd=self.folder, check=True, capture_output=True)

    def _authority(self, name: str) -> None:
        self._run(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
            "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem",
        )  # fmt: skip

    def _signed(self, name: str) -> None:
        self._run(
            "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}",
            "-keyout", f"{name}.key", "-out", f"{name}.csr",
        )  # fmt: skip
        self._run(
            "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30",
            "-out", f"{name}.pem",
        )  # fmt: skip

    def encrypted(self) -> str:
        """Return the path of a key that is encrypted with a password."""
        self._run("ec", "-in", "one.key", "-aes256", "-passout", "pass:secret", "-out", "locked.key")
        return self.path("locked.key")

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def tls(self, name: str | None, ca: bool = True) -> xo.TLS:
        return xo.TLS(
            self.path(f"{name}.pem") if name else None,
            self.path(f"{name}.key") if name else None,
            self.path("ca.pem") if ca else None,
        )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"))


@pytest.fixture(autouse=True)
def _nothing_chosen() -> Iterator[None]:
    yield
    assert tls._activated == []


@contextlib.contextmanager
def only_tcp() -> Iterator[None]:
    """Make this process connect over TCP only."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(addresses, "local_name", lambda _address: "\0nobody is here")
        yield


@contextlib.contextmanager
def speaking(given: xo.TLS | None) -> Iterator[None]:
    """Use these TLS settings for connections of this process."""
    secured = tls.activate(given or False)
    try:
        yield
    finally:
        tls.deactivate(secured)


def far(given: xo.TLS | None, work: Callable[[str], Awaitable[None]]) -> None:
    """Run ``work`` with the address of a sub pool that has these settings, and that this process is not connected to."""

    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=1, tls=given or False) as pool:
            address = pool.config.get_external_addresses()[1]
            Peers.here().close({address})
            await until(lambda: Peers.here().known(address) is None)
            with only_tcp():
                await work(address)

    asyncio.run(main())


def link_to(address: str) -> Any:
    peer = Peers.here().known(address)
    assert peer is not None
    return peer.link


# ---- traffic ----


@pytest.mark.parametrize("ca", ["ca", "itself", None])
def test_calls(files: Files, ca: str | None) -> None:
    given = files.tls("one", ca is not None)
    if ca == "itself":
        given = xo.TLS(files.path("alone.pem"), files.path("alone.key"), files.path("alone.pem"))

    async def work(address: str) -> None:
        ref = await xo.create_actor(Worker, address=address)
        link = link_to(address)
        assert isinstance(link, tls.TlsLink)
        assert link._sock._sock.version() == "TLSv1.3"
        assert (link._secured.client.verify_mode == ssl.CERT_REQUIRED) == (ca is not None)
        assert await asyncio.gather(*[ref.add(1) for _ in range(500)]) == list(range(1, 501))
        rng = np.random.default_rng(0)
        for size in (0, 1, 1000, 16_383, 16_385, 300_000, 20_000_000):
            data = rng.integers(0, 255, size, "u1")
            assert np.array_equal(await ref.echo(data), data)
        texts = ["x" * dice for dice in random.Random(1).choices(range(70_000), k=200)]
        assert await asyncio.gather(*[ref.echo(text) for text in texts]) == texts
        with pytest.raises(TypeError, match="unsupported operand"):
            await ref.add("x")
        task = asyncio.ensure_future(ref.sleep(60))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert link_to(address) is link
        # The other side uses TLS, too.
        assert link.received > 20_000_000 < link.sent

    far(given, work)


class Holder(xo.Actor):
    def __init__(self) -> None:
        self.data = np.zeros(10_000_000, "u1")

    def place(self) -> xo.BufferRef:
        return xo.buffer_ref(self.address, self.data)

    def contents(self) -> Any:
        return self.data


def test_buffers_and_calls_at_once(files: Files) -> None:
    async def work(address: str) -> None:
        holder = await xo.create_actor(Holder, address=address)
        worker = await xo.create_actor(Worker, address=address)
        data = np.random.default_rng(0).integers(0, 255, 10_000_000, "u1")
        copying = xo.copy_to([data], [await holder.place()])
        echoed = asyncio.gather(*[worker.echo(data[: 100_000 * i]) for i in range(20)])
        await copying
        assert [len(each) for each in await echoed] == [100_000 * i for i in range(20)]
        assert np.array_equal(await holder.contents(), data)

    far(files.tls("one"), work)


def test_a_restarted_sub_pool_uses_tls(files: Files) -> None:
    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=1, tls=files.tls("one")) as pool:
            ref = await xo.create_actor(Worker, address=pool.external_address, allocate_strategy=of(1))
            with only_tcp():
                with pytest.raises(xo.ServerClosed, match="code 7"):
                    await ref.exit(7)
                await xo.wait_actor_pool_recovered(ref.address, pool.external_address)
                assert await ref.add(1) == 1
                assert isinstance(link_to(ref.address), tls.TlsLink)
                added = await pool.append_sub_pool()
                assert await xo.has_actor(xo.create_actor_ref(b"nobody", address=added)) is False
                assert isinstance(link_to(added), tls.TlsLink)

    asyncio.run(main())


def test_the_environment(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    given = files.tls("one")
    for name, value in tls.variables(given).items():
        monkeypatch.setenv(name, value)
    port = free_port()
    serve = f"""
import asyncio, sys
import craton.actor as xo
from actors import Worker

async def main():
    async with await xo.create_actor_pool("127.0.0.1:{port}", n_process=0) as pool:
        await xo.create_actor(Worker, uid="w", address=pool.external_address)
        print("ready", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

asyncio.run(main())
"""
    with program(serve, stdin=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"

            async def main() -> None:
                ref = await xo.actor_ref("w", address=f"127.0.0.1:{port}")
                assert await ref.add(2) == 2
                link = link_to(ref.address)
                assert isinstance(link, tls.TlsLink)
                assert link._secured.tls == given

            with only_tcp():
                asyncio.run(main())
                monkeypatch.setenv(tls.VARIABLE + "CERT", files.path("alone.pem"))
                monkeypatch.setenv(tls.VARIABLE + "KEY", files.path("alone.key"))
                with pytest.raises(xo.NotAuthenticated, match="does not accept the certificate"):
                    asyncio.run(main())
                for name in tls.variables(None):
                    monkeypatch.setenv(name, "")
                assert tls.current() is None
        finally:
            server.kill()


def test_an_unreachable_machine_is_detected(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(address: str) -> None:
        ref = await xo.create_actor(Worker, address=address)
        link = link_to(address)
        (sock,) = [sock for felt, sock in keepalive._watched[asyncio.get_running_loop()].items() if felt is link]
        assert len(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, keepalive._INFO.size)) == keepalive._INFO.size
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert not keepalive.is_silent(sock)
        calling = asyncio.ensure_future(ref.sleep(60))
        await asyncio.sleep(0)
        monkeypatch.setattr(keepalive, "is_silent", lambda felt: felt is sock)
        with pytest.raises(xo.ServerClosed, match="silent"):
            await asyncio.wait_for(calling, 10)

    if not hasattr(socket, "TCP_INFO"):
        pytest.skip("only Linux tells of it")
    far(files.tls("one"), work)


# ---- refused peers ----


@pytest.mark.parametrize(
    ("theirs", "ours", "why"),
    [
        ("one", None, "requires TLS, and this process has none"),
        (None, "one", "does not use TLS, and this process requires it"),
        ("one", "alone", "does not accept the certificate of this process"),
        ("one", "", "requires a certificate, and this process has none"),
        (
            "alone",
            "one",
            "the certificate of the pool at .* cannot be verified with the authorities in .*ca.pem: .*self",
        ),
    ],
)
def test_refused_peers(files: Files, theirs: str | None, ours: str | None, why: str) -> None:
    async def work(address: str) -> None:
        began = time.monotonic()
        with (
            speaking(None if ours is None else files.tls(ours)),
            pytest.raises(xo.NotAuthenticated, match=why),
        ):
            await xo.actor_ref("w", address=address)
        assert time.monotonic() - began < HANDSHAKE_TIMEOUT - 1
        # It still serves its other clients.
        if theirs != "alone":
            assert await (await xo.create_actor(Worker, address=address)).add(3) == 3

    far(None if theirs is None else files.tls(theirs), work)


def test_without_an_authority_the_key_decides(files: Files) -> None:
    async def work(address: str) -> None:
        for ours in (files.tls("two", False), files.tls("alone", False), xo.TLS(ca=files.path("ca.pem"))):
            with speaking(ours):
                assert await xo.has_actor(xo.create_actor_ref(b"nobody", address=address)) is False
            Peers.here().close({address})
            await until(lambda: Peers.here().known(address) is None)
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv(auth.VARIABLE, "another key of sixteen bytes")
            with pytest.raises(xo.NotAuthenticated, match="refuses this process"):
                await xo.has_actor(xo.create_actor_ref(b"nobody", address=address))

    far(files.tls("one", False), work)


def test_garbage(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    def attack(address: str) -> None:
        host, port = addresses.split(address)
        dice = random.Random(3)
        client = files.tls("two")
        for kind in range(60):
            with socket.create_connection((host, port or 0), timeout=10) as sock, contextlib.suppress(OSError):
                assert sock.recv(auth.OPENING, socket.MSG_WAITALL).startswith(auth.SECURED)
                if kind % 3 == 0:
                    sock.sendall(dice.randbytes(500))
                elif kind % 3 == 1:
                    sock.sendall(b"\x16\x03\x01\x02\x00" + dice.randbytes(dice.randrange(600)))
                else:
                    # TLS is negotiated, but the client does not have the key.
                    with tls.LoadedTLS(client).client.wrap_socket(sock) as secure:
                        secure.sendall(auth.SECURED + dice.randbytes(auth.NONCE + auth.MAC))
                        assert b"".join(iter(lambda: secure.recv(100), b"")) == auth.REFUSED
                    continue
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(1000):
                    pass

    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=0, tls=files.tls("one")) as pool:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, attack, pool.external_address)
            await until(lambda: not pool._links and not len(pool.unauthenticated))
            assert not pool._tasks

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert any("the TLS negotiation with" in record.getMessage() for record in caplog.records)


def test_stalled_clients_are_dropped(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    from craton.actor.wire import link

    monkeypatch.setattr(link, "HANDSHAKE_TIMEOUT", 0.1)

    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=0, tls=files.tls("one")) as pool:
            host, port = addresses.split(pool.external_address)
            with socket.create_connection((host, port or 0), timeout=10):
                await until(lambda: len(pool.unauthenticated) == 1)
                await until(lambda: not pool._links)

    asyncio.run(main())


# ---- man in the middle ----


class Middle:
    """A relay; with settings, it terminates TLS with its own certificate."""

    def __init__(self, address: str, given: xo.TLS | None) -> None:
        self._target, self._given = addresses.split(address), given
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.heard: list[bytes] = []
        self._socks = [self._listening]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                distant = socket.create_connection(self._target)  # type: ignore[arg-type]
                self._socks += [near, distant]
                near.sendall(distant.recv(auth.OPENING, socket.MSG_WAITALL))
                if self._given is not None:
                    secured = tls.LoadedTLS(self._given)
                    assert secured.server is not None
                    distant = secured.client.wrap_socket(distant)
                    near = secured.server.wrap_socket(near, server_side=True)
                    self._socks += [near, distant]
                for ways in ((near, distant), (distant, near)):
                    threading.Thread(target=self._pass, args=ways, daemon=True).start()

    def _pass(self, near: socket.socket, distant: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := near.recv(1 << 16):
                self.heard.append(data)
                distant.sendall(data)
        with contextlib.suppress(OSError):
            distant.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for sock in self._socks:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()


@pytest.mark.parametrize("given", [None, "plain", "own certificate"])
def test_a_man_in_the_middle(files: Files, given: str | None) -> None:
    secret = "what nobody else shall know, " * 10

    async def work(address: str) -> None:
        middle = Middle(address, files.tls("two", False) if given == "own certificate" else None)
        try:
            if given == "own certificate":
                # The relay could read everything, so the handshake must fail before anything is sent.
                with pytest.raises(xo.NotAuthenticated, match="refuses this process"):
                    await xo.create_actor(Worker, secret, address=middle.address)
                heard = b"".join(middle.heard)
                assert heard.startswith(auth.SECURED)
                assert len(heard) == auth.OPENING + 2 * auth.MAC
                assert heard.endswith(auth.REFUSED)
            else:
                ref = await xo.create_actor(Worker, 0, address=middle.address)
                ref = xo.create_actor_ref(ref.uid, address=middle.address)
                assert await ref.echo(secret) == secret
                assert (secret.encode() in b"".join(middle.heard)) == (given == "plain")
        finally:
            middle.close()

    far(None if given == "plain" else files.tls("one", False), work)


# ---- settings ----


def test_wrong_settings(files: Files, tmp_path: Path) -> None:
    one, key = files.path("one.pem"), files.path("one.key")
    with pytest.raises(ValueError, match="needs a certificate"):
        xo.TLS()
    with pytest.raises(ValueError, match="without the certificate"):
        xo.TLS(key=key, ca=one)
    rubbish = tmp_path / "rubbish.pem"
    rubbish.write_text("no certificate")
    for given, error, why in [
        (xo.TLS(str(tmp_path / "none.pem"), key), FileNotFoundError, "none.pem"),
        (xo.TLS(one, str(tmp_path / "none.key")), FileNotFoundError, "none.key"),
        (xo.TLS(one, key, str(tmp_path / "none.ca")), FileNotFoundError, "none.ca"),
        (xo.TLS(one), ValueError, "which has its key with it"),
        (xo.TLS(one, files.path("two.key")), ValueError, "MISMATCH|mismatch"),
        (xo.TLS(rubbish, key), ValueError, "rubbish.pem"),
        (xo.TLS(one, key, rubbish), ValueError, "authorities in .*rubbish.pem"),
        (xo.TLS(one, files.encrypted()), ValueError, "use an unencrypted key"),
    ]:
        with pytest.raises(error, match=why):
            tls.activate(given)

    async def main() -> None:
        with pytest.raises(ValueError, match="a pool with TLS needs a certificate"):
            await xo.create_actor_pool("127.0.0.1", n_process=0, tls=xo.TLS(ca=files.path("ca.pem")))
        with pytest.raises(TypeError, match=r"`tls` must be a craton\.actor\.TLS or False"):
            await xo.create_actor_pool("127.0.0.1", n_process=0, tls="one.pem")  # type: ignore[arg-type]

    asyncio.run(main())


def test_a_certificate_with_its_key(files: Files, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_text(Path(files.path("one.key")).read_text() + Path(files.path("one.pem")).read_text())
    assert tls.LoadedTLS(xo.TLS(both)).binding == tls.LoadedTLS(files.tls("one")).binding
    assert tls.LoadedTLS(files.tls("two")).binding != tls.LoadedTLS(files.tls("one")).binding


def test_bytes_given_to_tls_start_with_the_first_piece() -> None:
    # After a send that would block, OpenSSL requires the same bytes again.
    first, second = memoryview(b"a" * 10), memoryview(b"b" * tls._MAX_STEP)
    assert tls._beginning([first, second]) == first
    assert tls._beginning([second, first]) == second
    assert tls._beginning([first, first, second]) == b"a" * 20
    assert len(tls._beginning([memoryview(b"c" * (tls._MAX_STEP + 1))])) == tls._MAX_STEP
    assert frames.HEADER.size < tls._MAX_STEP
