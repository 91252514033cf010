"""Hosts start a cluster's processes on its machines: one module for each kind of cluster, and their common base."""
