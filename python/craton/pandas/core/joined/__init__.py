"""Columns that are taken without a plan: rows of joined and filtered tables in memory, by position; whole columns of durable sets."""
