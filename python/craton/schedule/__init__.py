"""Tasks, who runs them, and where."""
