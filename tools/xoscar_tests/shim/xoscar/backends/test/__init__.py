"""Xoscar's backend that runs all pools in one process; with Craton, pools are child processes here, too."""
