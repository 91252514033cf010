"""Columns that a plan carries: it selects and reorders their values, but computes nothing from them."""
