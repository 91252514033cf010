"""The questions of H2O's db-benchmark: ten group-bys and five joins."""
