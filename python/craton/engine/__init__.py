"""Chooses the engine that runs a plan, runs it, and caches results."""
