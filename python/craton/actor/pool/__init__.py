"""Pools, the containers of actors: main pools, sub pools, and the processes of sub pools."""
