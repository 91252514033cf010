"""Methods that call Python functions."""
