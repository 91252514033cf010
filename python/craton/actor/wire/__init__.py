"""What goes over a connection, and connections."""
