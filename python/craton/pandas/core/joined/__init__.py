"""Rows of tables in memory that joins and filters select, as row positions: columns are taken from the arrays in memory."""
