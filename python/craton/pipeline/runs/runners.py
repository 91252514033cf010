"""What calls the functions of a run: processes of their own, on this machine or on those of a session, or this process."""

from __future__ import annotations

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
#: The warm processes of each store.
_warm: weakref.WeakKeyDictionary[Store, Sandboxes] = weakref.WeakKeyDictionary()
#: What runs steps on the machines of a session.
_sessions: weakref.WeakKeyDictionary[ClusterSession, StepRunner] = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def processes(store: Store, in_process: bool, given: StepRunner | None) -> Iterator[StepRunner]:
    """What a run uses to call functions.

    Parameters
    ----------
    store
        The store of the run. Its processes stay warm until it is closed, or the program ends.
    in_process
        Call functions in this process.
    given
        What the user gave, which stays open.
    """
    if given is not None:
        yield given
    elif in_process:
        yield InProcess(store)
    else:
        here = _of_store(store)
        session = _session_of_machines() if store is current_store() else None
        yield here if session is None else _of_session(session, store, here)


def _of_store(store: Store) -> Sandboxes:
    with _lock:
        if (found := _warm.get(store)) is None:
            found = _warm[store] = Sandboxes(store, holds_store=False)
            store.before_close(found.close)
            weakref.finalize(store, found.close)
        return found


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
