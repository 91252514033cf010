"""Runs a command, and reaps its orphaned descendants, as the init process of a machine does.

In a container without an init process, orphans that have ended remain as zombies, which would make a test fail.
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
