"""Random programs, run under pandas and under Craton, must give the same: the differential fuzzer.

Use it::

    make fuzz-pandas MINUTES=10                 # every mode, a new seed, which is printed
    python -m tests.fuzz --programs 1000 --seed 7 --mode whole
    python -m tests.fuzz --minutes 30 --mode all --jobs 2 --reach
    python -m tests.fuzz grid --mode tiles3     # row orders x derived columns x endings, all of them

It ends with 1 if anything differs, and prints each difference as a short program that runs by itself.

How it works
------------
A program is tables and steps (:mod:`~tests.fuzz.programs`): tables are drawn by :mod:`~tests.fuzz.frames`, steps are statements of plain
Python that :mod:`~tests.fuzz.building` draws from the table of operations (:mod:`tests.fuzz.operations`). Each candidate step runs under
pandas while the program is built, so that most steps make sense; some that raise are kept, because errors must be the same too.

Then the same text runs with ``pd`` bound to ``craton.pandas``, in a mode (:mod:`~tests.fuzz.modes`): as a whole, with the default
options, in 2, 3 or 17 tiles, with a store that has to spill, without remembered results, on a session's workers. All variables are
compared (:mod:`~tests.fuzz.oracle`, :mod:`~tests.fuzz.compare`): values, dtypes, row labels, names, order, classes, errors and their
texts. Floats may differ by what the order of additions does, nothing else.

Modes that change the program (:mod:`~tests.fuzz.metamorphic`) look at results midway, let unrelated steps change places, split files,
and give columns odd names; no result may change by it.

What differs is made small (:mod:`~tests.fuzz.shrink`): steps, expressions, columns and rows are left out as long as the same kind of
difference stays. Findings of one signature are printed once. What has a reason in ``docs/known-differences.md`` is listed in
:mod:`~tests.fuzz.explained`; the list is short and stays so. That it is the reason is tried where it can be
(:mod:`~tests.fuzz.consequences`): pandas runs the step on what Craton had before it, or both run the program without the reason.

What to do with a finding
-------------------------
Put its program into :data:`tests.fuzz.found.FOUND` and mend the engine. A new method of pandas that is planned joins
:mod:`tests.fuzz.operations` the same day: ``test_fuzz.py`` fails for a call of ``docs/native.md`` that has no operation, and
``--reach`` prints which calls, parameters and pairs of plan operators the run has reached.
"""
