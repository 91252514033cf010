"""Random programs, run under pandas and under Craton, must give the same.

``python -m tests.fuzz --minutes 3 --mode all`` builds programs of 1 to 12 steps over random frames, runs each text with
``pd`` bound to pandas and to ``craton.pandas``, compares everything that either makes, and prints what differs as a short
program that runs by itself.
"""
