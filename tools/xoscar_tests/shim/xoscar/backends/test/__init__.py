"""Xoscar's backend that has all pools in one process; here they are processes as ever."""
