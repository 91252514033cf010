"""Join, group-by, sort and their pipeline on two columns of integers."""
