"""Which machines of a session have folders on their own disks: tasks that read files run there, so that the files do not cross the network.

A folder that several machines see, such as a place of a durable set that its machine exports to the others, is the machine's own where
no network file system is mounted over it. Pangea schedules by the nodes of a set's partitions in the same way.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from pathlib import Path

import craton.actor as xo

__all__ = ["FolderMap", "on_own_disks"]

#: Kinds of file systems whose files are on other machines; of those in user space, each is taken for one.
_FROM_OTHERS = frozenset({
    "9p", "acfs", "afs", "autofs", "beegfs", "ceph", "cifs", "coda", "fuse", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4",
    "ocfs2", "orangefs", "panfs", "pvfs2", "smb2", "smb3", "smbfs", "vboxsf", "virtiofs",
})  # fmt: skip
#: Seconds after which a machine that has not answered counts as one that has none of the folders.
_ANSWERS = 2.0
#: The most folders that are remembered.
_REMEMBERED = 4096


def on_own_disks(folders: Sequence[str], mounts: str | None = None) -> list[bool]:
    """Whether folders exist on this machine and are not from another one, by the kind of their file system.

    Parameters
    ----------
    folders
        Absolute paths.
    mounts
        The text of ``/proc/self/mountinfo``, by default that of this process. Without one, all folders that exist are own.
    """
    if mounts is None:
        try:
            mounts = Path("/proc/self/mountinfo").read_text()
        except OSError:
            mounts = ""
    own: dict[str, bool] = {}
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        mounted, kind = before.split()[4], after.split()[0]
        own[_unescaped(mounted)] = kind not in _FROM_OTHERS and not kind.startswith("fuse.")
    return [_is_own(folder, own) for folder in folders]


def _is_own(folder: str, own: dict[str, bool]) -> bool:
    # The nearest mount decides, before the folder is looked at: a machine that does not answer would stop this one.
    above = [folder, *map(str, Path(folder).parents)]
    return next((own[path] for path in above if path in own), True) and os.path.isdir(folder)


def _unescaped(path: str) -> str:
    """A path in ``mountinfo``, where spaces and some other characters are octal numbers."""
    for code in ("040", "011", "012", "134"):
        path = path.replace(f"\\{code}", chr(int(code, 8)))
    return path


class FolderMap:
    """The machines that have folders on their own disks, as they said.

    Parameters
    ----------
    ask
        Asks a machine, by its number, which folders are its own; see :func:`on_own_disks`.
    """

    def __init__(self, ask: Callable[[int, list[str]], Awaitable[list[bool]]]) -> None:
        self._ask = ask
        self._known: dict[str, frozenset[int]] = {}
        self._machines: frozenset[int] = frozenset()

    async def locate(self, folders: Iterable[str], machines: Collection[int]) -> None:
        """Ask the machines for the folders that are not known yet; after 2 seconds without an answer, a machine has none of them."""
        if self._machines != frozenset(machines) or len(self._known) > _REMEMBERED:
            self._machines, self._known = frozenset(machines), {}
        wanted = list(dict.fromkeys(folder for folder in folders if folder not in self._known))
        if not wanted or len(machines) < 2:
            return
        numbers = sorted(machines)
        answers = await asyncio.gather(*[self._answer(number, wanted) for number in numbers])
        for folder, *said in zip(wanted, *answers, strict=True):
            self._known[folder] = frozenset(number for number, own in zip(numbers, said, strict=True) if own)

    async def _answer(self, machine: int, folders: list[str]) -> list[bool]:
        try:
            return await asyncio.wait_for(self._ask(machine, folders), _ANSWERS)
        except (OSError, TimeoutError, RuntimeError, xo.ActorError):
            return [False] * len(folders)

    def machines_of(self, folder: str) -> frozenset[int]:
        """The machines that have a folder on their own disks; none if all have it, or if that is not known."""
        found = self._known.get(folder, frozenset())
        return frozenset() if found == self._machines else found
