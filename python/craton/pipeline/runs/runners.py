"""What calls the functions of a run: processes of their own, on this machine or on those of a session, or this process."""

from __future__ import annotations

import atexit
import contextlib
import threading
import weakref
from collections.abc import Iterator

from craton.cluster.sessions import ClusterSession, current
from craton.pipeline.runs.in_process import InProcess
from craton.pipeline.sandboxes import Sandboxes
from craton.pipeline.tasks import StepRunner
from craton.store.process import current_store
from craton.store.store import Store

__all__ = ["processes"]

_lock = threading.Lock()
#: The warm processes of this process's store.
_shared: tuple[Store, Sandboxes] | None = None
#: What runs steps on the machines of a session.
_sessions: weakref.WeakKeyDictionary[ClusterSession, StepRunner] = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def processes(store: Store, in_process: bool, given: StepRunner | None) -> Iterator[StepRunner]:
    """What a run uses to call functions.

    Parameters
    ----------
    store
        The store of the run. If it is this process's, warm processes are kept until the program ends, else until the run does.
    in_process
        Call functions in this process.
    given
        What the user gave, which stays open.
    """
    if given is not None:
        yield given
    elif in_process:
        yield InProcess(store)
    elif store is current_store():
        here = _of_this_process(store)
        session = _session_of_machines()
        if session is None:
            yield here
        else:
            yield _of_session(session, store, here)
    else:
        with Sandboxes(store) as made:
            yield made


def _of_this_process(store: Store) -> Sandboxes:
    global _shared
    with _lock:
        if _shared is None or _shared[0] is not store:
            if _shared is not None:
                _shared[1].close()
            _shared = (store, Sandboxes(store))
        return _shared[1]


def _session_of_machines() -> ClusterSession | None:
    """The session, if there is one whose workers are on several machines."""
    session = current()
    if not isinstance(session, ClusterSession) or len({band.node for band in session.runner.bands}) < 2:
        return None
    return session


def _of_session(session: ClusterSession, store: Store, here: Sandboxes) -> StepRunner:
    with _lock:
        if session not in _sessions:
            from craton.pipeline.runs.step_hosts import OnSession

            _sessions[session] = OnSession(session, store, here)
        return _sessions[session]


@atexit.register
def close_processes() -> None:
    """End the warm processes."""
    global _shared
    with _lock:
        if _shared is not None:
            _shared[1].close()
            _shared = None
