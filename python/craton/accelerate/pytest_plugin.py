"""``pytest -p craton.accelerate.pytest_plugin``: run a test suite with Craton in pandas' place.

Installs the accelerator before pytest imports any ``conftest.py`` or test module, so that they, too, get
Craton. Meant for a project's own suite and used for pandas' own: there pandas' testing helpers are told
about Craton's classes as well, since they compare classes by identity (``box_cls is DataFrame``).
"""

from __future__ import annotations

from craton.accelerate.install import install

install(include=("pandas._testing",))
