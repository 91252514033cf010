"""Runs lowered plans, with progress and Ctrl-C."""
