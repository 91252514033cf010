"""Which calls of a program ran natively, which fell back to pandas and why, and where the time went.

A `Profile` listens to the engine's events (`craton.events`) and notes, for each, the line of the user's
program that caused it. Use it as ``with craton.profile() as report: …``, from the shell as
``python -m craton --profile script.py``, or in a notebook as ``%%craton.profile``.

Planning is lazy, so a call that builds a plan takes microseconds and the line that looks at the result
takes the time. A plan that ran outside any recorded call is shown as a row named "(run)".

In a session with workers it also has their tasks and their memory over time, as frames and as drawings.
"""

from craton.profiling.recording import Call, Profile, profile

__all__ = ["Call", "Profile", "profile"]
