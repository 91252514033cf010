"""Operations on whole tables: merge, concat, sort, pivot, melt, duplicates."""
