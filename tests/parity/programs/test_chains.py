"""Random chains of operations over random frames, under pandas and under Craton with the small-data path off."""

from __future__ import annotations

import os
import warnings

import pytest
from chains import STEPS, program
from frames import COMMON, KINDS, frames
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import check

# Set CRATON_CHAINS=20000 for a long search by hand. Continuous integration runs the same examples every time.
EXAMPLES = int(os.environ.get("CRATON_CHAINS", "150"))
LONG = "CRATON_CHAINS" in os.environ
SETTINGS = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=not LONG,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
step = st.tuples(st.sampled_from(sorted(STEPS)), st.lists(st.integers(0, 999), min_size=4, max_size=8))


def compare(frame, steps):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # both engines warn; pandas' own tests check the warnings
        check(program(steps), frame, native=None, rtol=1e-9)


@pytest.mark.parametrize("name", sorted(STEPS))
@settings(SETTINGS, max_examples=max(EXAMPLES // 10, 5))
@given(frame=frames(), numbers=st.lists(st.integers(0, 999), min_size=4, max_size=8))
def test_one_step(name, frame, numbers):
    compare(frame, [(name, numbers)])


@SETTINGS
@given(frame=frames(kinds=COMMON), steps=st.lists(step, min_size=2, max_size=5))
def test_chain_of_common_dtypes(frame, steps):
    compare(frame, steps)


@SETTINGS
@given(frame=frames(kinds=tuple(KINDS)), steps=st.lists(step, min_size=2, max_size=5))
def test_chain_of_every_dtype(frame, steps):
    compare(frame, steps)
