"""Where the tables come from that a pipeline starts with."""
