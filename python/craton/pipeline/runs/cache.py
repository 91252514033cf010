"""Tables of earlier runs, kept in the store by a hash of what they were made from."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping

from craton.pipeline.tasks import Stored
from craton.store.sets import LocalitySet
from craton.store.store import Store

__all__ = ["Remembered", "StepCache"]

#: How many results of one step are kept.
MOST_RESULTS = 3

#: The tables of a step, by name; with the name None if it makes one.
Remembered = Mapping[str | None, Stored]


class StepCache:
    """Results of steps in a store, as sets with names. The newest of each step are kept, and those that somebody uses.

    Parameters
    ----------
    store
        The store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, step: str, key: bytes) -> Remembered | None:
        """The tables that were kept; None if there are none."""
        try:
            entries = json.loads(self._store.get_set(_name(step, key)).tag)
            return {
                output: Stored(self._store.get_set(name), form, rows, nbytes)
                for name, output, form, rows, nbytes in entries
            }
        except KeyError:
            return None

    def keep(self, step: str, key: bytes, tables: Remembered) -> None:
        """Keep tables, by reference, in place of those that have the same key."""
        index, unique = _name(step, key), os.urandom(6).hex()
        entries = []
        made = []  # as long as these live, the sets are in use
        try:
            for number, (output, stored) in enumerate(tables.items()):
                name = f"{index}:{unique}:{number}"
                made.append(self._store.create_set(name))
                reference(stored.pages, made[-1])
                entries.append((name, output, stored.form, stored.rows, stored.nbytes))
            with contextlib.suppress(KeyError):
                self._store.get_set(index).drop()
            with contextlib.suppress(FileExistsError):  # another run keeps the same at this moment
                self._store.create_set(index, tag=json.dumps(entries).encode())
        except MemoryError:
            pass  # the tables are not kept; what was made is dropped with what is not in use
        self._drop_old(step, made)

    def _drop_old(self, step: str, made: list[LocalitySet]) -> None:
        """Drop all but the newest results of a step, and sets that no result has, unless they are in use."""
        prefix = _name(step, b"")
        rows = [row for row in self._store._native.describe() if (row["name"] or "").startswith(prefix)]
        results = [row for row in rows if ":" not in row["name"].removeprefix(prefix)]
        results.sort(key=lambda row: row["set"])
        kept = {name for row in results[-MOST_RESULTS:] for name, *_ in json.loads(row["tag"])}
        listed = {name for row in results for name, *_ in json.loads(row["tag"])}
        del made[:]
        for row in results[:-MOST_RESULTS]:
            self._drop(row["set"])
        for row in rows:
            orphan = row["name"] not in listed and row not in results
            if row["name"] not in kept and (orphan or row["name"] in listed) and not self._users(row["name"]):
                self._drop(row["set"])

    def _users(self, name: str) -> int:
        found = [row["users"] for row in self._store._native.describe() if row["name"] == name]
        return found[0] if found else 0

    def _drop(self, number: int) -> None:
        with contextlib.suppress(KeyError):
            self._store._native.drop_set(number)


def reference(pages: LocalitySet, target: LocalitySet) -> None:
    """Append the pages of a set to another one, without a copy."""
    for info in pages.pages():
        target.append(pages.pin(info).batch())


def _name(step: str, key: bytes) -> str:
    return f"pipeline:{step}:{key.hex()}"
