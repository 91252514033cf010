"""Xoscar's backend of processes."""
