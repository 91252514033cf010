"""Plans are equal by content, in every process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import polars as pl
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from craton.errors import PlanError
from craton.plan.expr import Call, Column, Literal, Values
from craton.plan.node import encode
from craton.plan.operators import Filter, Scan
from craton.plan.sources import FileSource

PROGRAM = """
import polars as pl
from craton.plan.expr import Call, Column, Literal
from craton.plan.operators import Filter, Scan
from craton.plan.sources import FileSource
source = FileSource((("a", pl.Int64()),), "parquet", ("x.parquet",), ((10, 20),))
scan = Scan(source, ("a",))
print(Filter(scan, Call("gt", (Column("a", pl.Int64()), Literal(3, pl.Int64())), pl.Boolean())).digest.hex())
"""


def sample(value: int) -> Filter:
    source = FileSource((("a", pl.Int64()),), "parquet", ("x.parquet",), ((10, 20),))
    predicate = Call("gt", (Column("a", pl.Int64()), Literal(value, pl.Int64())), pl.Boolean())
    return Filter(Scan(source, ("a",)), predicate)


def test_equal_content_is_equal_and_other_content_is_not():
    assert sample(3) == sample(3)
    assert hash(sample(3)) == hash(sample(3))
    assert sample(3) != sample(4)
    assert len(sample(3).digest) == 16


def test_the_digest_is_the_same_in_another_process():
    out = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    assert out.strip() == sample(3).digest.hex()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, True),
        ("1", 1),
        (None, "None"),
        (pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-02")),
        (("a", "bc"), ("ab", "c")),
        (pl.Datetime("us"), pl.Datetime("ns")),
        (0.0, -0.0),
    ],
)
def test_values_that_differ_are_encoded_differently(one, other):
    assert encode(one) != encode(other)
    assert encode(one) == encode(one)


def test_what_has_no_stable_encoding_is_refused():
    with pytest.raises(PlanError, match="a plan cannot contain a value of type"):
        encode(object())


def test_values_are_equal_by_content():
    assert Values.of(pl.Series("a", [1, 2])) == Values.of(pl.Series("b", [1, 2]))
    assert Values.of(pl.Series([1, 2])) != Values.of(pl.Series([1, 3]))
