"""Accelerator mode: a program that says ``import pandas as pd`` runs on Craton, unchanged.

After `install`, an import of pandas by the user's code gives ``craton.pandas``; an import by pandas
itself, by the standard library or by an installed library gives pandas. ``sys.modules["pandas"]`` stays
what it was, and so does every submodule (``pandas.testing``, ``pandas.api.types``, …). There is no proxy:
the names that a program gets are Craton's own classes, which subclass pandas', so that libraries accept
them and an attribute access costs what it always did.
"""

from __future__ import annotations

from craton.accelerate.install import install, installed, uninstall
from craton.accelerate.ipython import load_ipython_extension, unload_ipython_extension

__all__ = ["install", "installed", "load_ipython_extension", "uninstall", "unload_ipython_extension"]
