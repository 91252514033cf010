"""pandera and narwhals treat the frames of an accelerated program as pandas' own."""

from __future__ import annotations

from pathlib import Path

import pytest
from accelerated import DATA, check

PANDERA = {
    "a schema": """
        import pandera.pandas as pa
        schema = pa.DataFrameSchema(
            {
                "width": pa.Column(float, [pa.Check.gt(1.2), pa.Check.in_range(0, 10)]),
                "colour": pa.Column(str, [pa.Check.isin(["red", "green", "blue"]), pa.Check.str_length(3, 5)]),
                "day": pa.Column("datetime64[us]", nullable=False),
                "count": pa.Column(int, pa.Check.ge(0), coerce=True),
                "height": pa.Column(float, pa.Check(lambda column: column.mean() > 4)),
            },
            checks=pa.Check(lambda whole: whole["width"] < whole["height"].max()),
            index=pa.Index(int, pa.Check.ge(0), unique=True),
        )
        checked = schema.validate(frame)
        print(isinstance(checked, pd.DataFrame), checked.shape, checked["count"].dtype)
        print(pa.SeriesSchema(float, pa.Check.gt(1.2), name="width").validate(frame["width"]).sum().round(8))
    """,
    "what does not hold": """
        import pandera.pandas as pa
        schema = pa.DataFrameSchema(
            {"width": pa.Column(float, pa.Check.lt(2.5)), "count": pa.Column(int, pa.Check.notin([3, 4])), "none": pa.Column(int)}
        )
        try:
            schema.validate(frame, lazy=True)
        except pa.errors.SchemaErrors as error:
            print(error.failure_cases[["column", "check", "failure_case", "index"]].to_string())
        try:
            schema.validate(frame)
        except pa.errors.SchemaError as error:
            print(str(error)[:300])
    """,
    "a model": """
        import pandera.pandas as pa
        from pandera.typing import DataFrame, Series
        class Thing(pa.DataFrameModel):
            width: Series[float] = pa.Field(gt=1.2)
            colour: str = pa.Field(isin=["red", "green", "blue"])
            count: int = pa.Field(ge=0, le=9)
            @pa.check("width")
            def positive(cls, column: Series[float]) -> Series[bool]:
                return column > 0
            @pa.dataframe_check
            def some(cls, whole):
                return whole["count"].sum() > 0
        class Wide(Thing):
            area: float
        @pa.check_types
        def widen(things: DataFrame[Thing]) -> DataFrame[Wide]:
            return things.assign(area=things["width"] * things["height"])
        made = widen(frame)
        print(isinstance(made, pd.DataFrame), made["area"].sum().round(8))
        try:
            widen(frame.assign(count=10))
        except pa.errors.SchemaError as error:
            print(str(error)[:200])
        print(pa.infer_schema(frame))
    """,
}

NARWHALS = {
    "a function over any library's frames": """
        import narwhals as nw
        @nw.narwhalify
        def totals(data):
            return data.group_by("colour").agg(nw.col("count").sum(), nw.col("width").mean()).sort("colour")
        made = totals(frame)
        print(isinstance(made, pd.DataFrame), made.round(8).to_string())
        wrapped = nw.from_native(frame)
        print(wrapped.implementation, wrapped.shape, wrapped.schema)
        print(nw.to_native(wrapped.with_columns(nw.col("width").rank().over("colour").alias("r")))["r"].sum())
        print(nw.from_native(frame["width"], series_only=True).mean().round(8), nw.from_native(frame.iloc[:0]).to_dict(as_series=False))
    """,
    "the module": """
        import narwhals as nw
        print(nw.get_native_namespace(frame) is pd, nw.from_native(frame).implementation.to_native_namespace() is pd)
        print(nw.Implementation.from_backend(pd))
        for backend in (pd, "pandas", nw.Implementation.PANDAS):
            made = nw.from_dict({"a": [1, 2], "b": ["x", None]}, backend=backend)
            print(isinstance(made.to_native(), pd.DataFrame), made.schema, made.to_native().to_string())
            print(nw.new_series("a", [1, 2], nw.Int32, backend=backend).to_native().dtype)
        print(nw.from_native(frame).lazy().collect(backend=pd).shape)
        try:
            nw.from_dict({"a": [1]}, backend="nothing")
        except ValueError as error:
            print(str(error)[:40])
    """,
}


def test_pandera(tmp_path: Path) -> None:
    pytest.importorskip("pandera")
    check(PANDERA, "import warnings\nwarnings.simplefilter('ignore')\n" + DATA, tmp_path)


def test_narwhals(tmp_path: Path) -> None:
    pytest.importorskip("narwhals")
    check(NARWHALS, DATA, tmp_path)
