"""A run of a pipeline: which steps run, in which order, and what they made."""
