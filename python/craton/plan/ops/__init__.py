"""The operators, a family a file; :mod:`craton.plan.operators` gives all of them."""
