"""What starts a cluster's processes, and knows its machines: one module a host."""
