"""Arrays of a user's subclass of an array of pandas keep their class, and what else they hold."""

from __future__ import annotations

import numpy as np
import pandas
from support import check


class Noted(pandas.arrays.StringArray):
    """Texts with a note."""

    note = "none"


def table() -> pandas.DataFrame:
    texts = Noted(np.array(["x", "y", "z"], dtype=object))
    texts.note = "read from a letter"
    return pandas.DataFrame({"a": pandas.Series(texts, copy=False), "b": [1, 2, 3]}, copy=False)


def test_the_class_remains() -> None:
    def program(pd):
        df = pd.DataFrame(table(), copy=False)
        chosen = df[df["b"] > 1]
        results = [df["a"], chosen["a"], df.assign(c=1)["a"], df["a"].shift(), df.sort_values("b").head(2)["a"]]
        return df["a"].array.note, [type(one.array) for one in results], chosen["b"].sum(), df["a"].str.upper()

    check(program, native=None)
