"""Groups by intervals of time: the intervals, and the resamplers of rows and of groups."""
