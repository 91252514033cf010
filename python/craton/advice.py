"""What to write instead of calls that are not planned, where a planned call has the same result.

Only features with a planned equivalent are listed. Tests run both forms of each.
"""

from __future__ import annotations

from craton.refusals import Refusal

__all__ = ["INSTEAD"]

_AS_COLUMN = "assign the values as a column, and pass its label"
_ONE_FRAME = "take both operands from one frame, or merge the frames first"

#: For each refusal: what to write instead.
INSTEAD: dict[Refusal, str] = {
    Refusal.ITERATOR: "pass a list",
    Refusal.ROWS_DIFFER: _ONE_FRAME,
    Refusal.ROW_LABELS_DIFFER: _ONE_FRAME,
    Refusal.GROUP_KEY_TYPE: _AS_COLUMN,
    Refusal.SORT_KEY: "assign the sort key as a column, sort by its label, and drop it",
    Refusal.INDEX_KEY_ARRAYS: _AS_COLUMN,
    Refusal.MERGE_KEY_ARRAY: _AS_COLUMN,
    Refusal.MERGE_KEY_DTYPES: "cast the keys of both sides to one dtype with astype first",
    Refusal.REPLACEMENT_PATTERNS: "use Series.str.replace with regex=True",
    Refusal.KEY_OF_LEVELS: "reset_index(), and filter by the columns",
    Refusal.LABELS_OF_SEVERAL_LEVELS: "join the levels of the column labels: df.columns = ['_'.join(label) for label in df.columns]",
}
