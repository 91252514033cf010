"""Profiles: which calls of a program ran natively, which fell back to pandas and why, and how long each took.

A `Profile` subscribes to the engine's events (`craton.events`) and records, for each, the line of the user's
program that caused it. Use it as ``with craton.profile() as report: …``, from the shell as
``python -m craton --profile script.py``, or in a notebook as ``%%craton.profile``.

Planning is lazy, so a call that builds a plan takes microseconds, and the line that reads the result takes the
time. A plan that ran outside any recorded call is shown as a row named "(run)".

In a session with workers a profile also has their tasks and their memory over time, as frames and as charts.
"""

from craton.profiling.recording import Call, Profile, profile

__all__ = ["Call", "Profile", "profile"]
