"""Which engine runs a plan, how it runs, and what is kept of its results."""
