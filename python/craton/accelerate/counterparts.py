"""Maps pandas' public objects to the objects of Craton that replace them.

The map is built by comparing the two modules name by name, so the accelerator needs no list of its own that could
fall behind the front end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from types import ModuleType
from typing import Any

import pandas

__all__ = ["Counterparts"]


class Counterparts:
    """A two-way map, by identity, between pandas' objects and Craton's replacements."""

    def __init__(self, front_end: ModuleType) -> None:
        self.front_end = front_end
        self._pairs: list[tuple[object, object]] = [(pandas, front_end)]
        self._pairs += [
            (theirs, ours)
            for name in getattr(pandas, "__all__", ())
            if not isinstance(theirs := getattr(pandas, name), ModuleType)
            and (ours := getattr(front_end, name)) is not theirs
        ]
        # The pairs above keep every object alive, so their identities stay valid.
        self._ours = {id(theirs): ours for theirs, ours in self._pairs}
        self._theirs = {id(ours): theirs for theirs, ours in self._pairs}

    def ours(self, value: object) -> Any:
        """Craton's replacement of pandas' object `value`, or `value` itself."""
        return self._ours.get(id(value), value)

    def replace(
        self, namespace: dict[str, Any], *, back: bool = False, names: Collection[str] | None = None
    ) -> list[str]:
        """Replace values in a module's globals in place; return the names that changed.

        Parameters
        ----------
        namespace
            The globals. Only direct values are replaced, never the elements of containers.
        back
            Replace Craton's objects by pandas', instead of the other way round.
        names
            The names to replace; all if None.
        """
        table = self._theirs if back else self._ours
        found = [
            (name, table[id(value)])
            for name, value in list(namespace.items())
            if id(value) in table and (names is None or name in names)
        ]
        namespace.update(found)
        return [name for name, _ in found]

    def view(self, module: ModuleType, names: Iterable[str]) -> ModuleType:
        """The module from which ``from module import names`` should take its names.

        This is `module` itself unless one of the names has a replacement, as in
        ``from pandas.core.frame import DataFrame``; then it is a copy that has Craton's objects.
        """
        wanted = list(names)
        if "*" in wanted:
            wanted = list(getattr(module, "__all__", vars(module)))
        if not any(id(vars(module).get(name)) in self._ours for name in wanted):
            return module
        copy = ModuleType(module.__name__, module.__doc__)
        copy.__dict__.update({name: self.ours(value) for name, value in vars(module).items()})
        return copy
