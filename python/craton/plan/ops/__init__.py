"""The operators, one family a file; import them from :mod:`craton.plan.operators`."""
