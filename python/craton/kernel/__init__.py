"""Runs lowered plans, watched and interruptible."""
