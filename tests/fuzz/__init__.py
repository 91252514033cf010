"""A differential fuzzer: it runs random programs under pandas and under Craton, and reports every difference of their results.

Usage::

    make fuzz-pandas MINUTES=10                 # all modes, with a new seed, which is printed
    python -m tests.fuzz --programs 1000 --seed 7 --mode single-node
    python -m tests.fuzz --minutes 30 --mode all --jobs 2 --reach
    python -m tests.fuzz grid --mode tiles3     # all combinations of row orders, derived columns and endings

The exit status is 1 if anything differs. Each difference is printed as a short program that can be run on its own.

How it works
------------
A program consists of tables and steps (:mod:`~tests.fuzz.programs`). :mod:`~tests.fuzz.frames` generates the tables;
:mod:`~tests.fuzz.building` generates the steps, which are Python statements, from the operations in :mod:`tests.fuzz.operations`. Each
candidate step first runs under pandas, and most that raise are rejected. Some are kept, because Craton must raise the same errors.

Then the same text runs with ``pd`` bound to ``craton.pandas``, in one of the modes (:mod:`~tests.fuzz.modes`): as one query in this
process, with the default options, in 2, 3 or 17 tiles, with a store that must spill, without remembered results, or on a session's
workers. :mod:`~tests.fuzz.oracle` and :mod:`~tests.fuzz.compare` compare all variables: values, dtypes, row labels, names, order,
classes, and the classes and texts of errors. Only floats may differ, by the rounding that depends on the order of additions.

Some modes change the program without changing its results (:mod:`~tests.fuzz.metamorphic`): they evaluate results early, permute
independent steps, split files, or give columns unusual names.

:mod:`~tests.fuzz.shrink` reduces a program that differs: it removes steps, expressions, columns and rows while the same kind of
difference remains. Findings with the same signature are printed once. Differences that ``docs/known-differences.md`` documents are
recognised by :mod:`~tests.fuzz.explained`, a list that must stay short. Where possible, an explanation is verified by an experiment
(:mod:`~tests.fuzz.consequences`): pandas runs the step on Craton's inputs, or both run the program without the suspected cause.

What to do with a finding
-------------------------
Add its program to :data:`tests.fuzz.found.FOUND`, and fix the engine. When a pandas method becomes native, add an operation for it to
:mod:`tests.fuzz.operations`: ``test_fuzz.py`` fails for a call in ``docs/native.md`` that has none. ``--reach`` prints the calls,
parameters and pairs of plan operators that a run covered.
"""
