"""Processes that others are forked from, so that each begins with its libraries imported.

`serving` is the server's side, `starting` that of the process that starts a server, and `processes` is what forked processes need.
"""
