"""Xoscar's backends, of which Craton has one."""
