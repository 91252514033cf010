"""Runs a command, and takes leave of the processes that its children leave behind, as the first process of a machine does.

In a container that has no such process, one that ended and whose parent has gone is still seen; a test asks for that.
"""

import ctypes
import os
import subprocess
import sys

if sys.platform == "linux":
    ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
child = subprocess.Popen(sys.argv[1:])
while True:
    pid, status = os.wait()
    if pid == child.pid:
        sys.exit(os.waitstatus_to_exitcode(status) & 0xFF)
