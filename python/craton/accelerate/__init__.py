"""Accelerator mode: a program that says ``import pandas as pd`` runs on Craton, unchanged.

After `install`, imports of pandas in the user's code return ``craton.pandas``; imports in pandas
itself, the standard library or an installed library return pandas. ``sys.modules["pandas"]`` and every
submodule (``pandas.testing``, ``pandas.api.types``, …) are unchanged. There is no proxy: the program gets
Craton's own classes, which subclass pandas', so libraries accept them, and attribute access has no overhead.
"""

from __future__ import annotations

from craton.accelerate.install import install, installed, uninstall
from craton.accelerate.ipython import load_ipython_extension, unload_ipython_extension

__all__ = ["install", "installed", "load_ipython_extension", "uninstall", "unload_ipython_extension"]
