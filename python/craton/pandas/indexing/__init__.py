"""Selection of rows and columns by label, mask and position; assignment; conversion between columns and row labels."""
