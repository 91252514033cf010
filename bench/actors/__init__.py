"""Actors in one process, across processes and by TCP."""
