"""``pytest -p craton.accelerate.pytest_plugin``: run a test suite with Craton in pandas' place.

Installs the accelerator before pytest imports any ``conftest.py`` or test module, so that these get Craton,
too. It is meant for a project's own suite, and also used to run pandas' own suite. For that, pandas' testing helpers
(``pandas._testing``) get Craton, too, because they compare classes by identity (``box_cls is DataFrame``).
"""

from __future__ import annotations

from craton.accelerate.install import install

install(include=("pandas._testing",))
