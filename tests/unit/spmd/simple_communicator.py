"""A communicator for tests."""

import pickle, socket, struct, select, time
from craton.comm.errors import CommunicatorClosed, RankFailed


class E:
    pass


def bind(host):
    e = E()
    e.sock = socket.create_server(("127.0.0.1", 0), backlog=64)
    e.address = str(e.sock.getsockname()[1]).encode()
    return e


class C:
    def __init__(s, rank, socks):
        s.rank, s.size, s.socks, s.closed = rank, len(socks), socks, False

    def alltoall(s, values, timeout=None):
        if s.closed:
            raise CommunicatorClosed("closed")
        out = [None] * s.size
        out[s.rank] = values[s.rank]
        for step in range(1, s.size):
            to, fr = (s.rank + step) % s.size, (s.rank - step) % s.size
            data = pickle.dumps(values[to])
            import threading

            t = threading.Thread(target=s._send, args=(to, data))
            t.start()
            out[fr] = s._recv(fr)
            t.join()
        return out

    def _send(s, to, data):
        try:
            s.socks[to].sendall(struct.pack("<Q", len(data)) + data)
        except OSError:
            s.closed = True

    def _recv(s, fr):
        try:
            (n,) = struct.unpack("<Q", s._ex(fr, 8))
            return pickle.loads(s._ex(fr, n))
        except OSError:
            raise CommunicatorClosed("broken") from None

    def _ex(s, fr, n):
        b = b""
        while len(b) < n:
            m = s.socks[fr].recv(n - len(b))
            if not m:
                s.abort()
                raise RankFailed(fr, "ended")
            b += m
        return b

    def allgather(s, v, timeout=None):
        return s.alltoall([v] * s.size)

    def barrier(s, timeout=None):
        s.allgather(None)

    def allreduce(s, v, op="sum", timeout=None):
        vs = s.allgather(v)
        return sum(vs) if op == "sum" else max(vs) if op == "max" else min(vs)

    def broadcast(s, v, root=0, timeout=None):
        return s.allgather(v)[root]

    def gather(s, v, root=0, timeout=None):
        g = s.allgather(v)
        return g if s.rank == root else None

    def abort(s, reason=""):
        s.closed = True
        for k in s.socks:
            if k is not None:
                try:
                    k.shutdown(2)
                except OSError:
                    pass

    def close(s):
        s.abort()


def connect(e, rank, addresses, key):
    socks = [None] * len(addresses)
    for other in range(rank):
        k = socket.create_connection(("127.0.0.1", int(addresses[other])))
        k.sendall(bytes([rank]))
        socks[other] = k
    for _ in range(rank + 1, len(addresses)):
        k, _a = e.sock.accept()
        socks[k.recv(1)[0]] = k
    e.sock.close()
    return C(rank, socks)
