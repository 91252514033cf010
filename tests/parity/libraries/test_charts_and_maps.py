"""plotly, altair and geopandas accept the frames of an accelerated program, and draw and compute the same as with pandas."""

from __future__ import annotations

from pathlib import Path

import pytest
from accelerated import DATA, check

PLOTLY = {
    "long form": """
        import json
        import plotly.express as px
        figure = px.scatter(frame, x="width", y="height", color="colour", size="count", hover_data=["grade"])
        print(len(figure.data), [trace.name for trace in figure.data], [len(trace.x) for trace in figure.data])
        print(json.dumps(json.loads(figure.to_json())["data"], sort_keys=True)[:2000])
        figure = px.histogram(frame, x="width", color="grade", facet_col="colour")
        print(len(figure.data), figure.layout.xaxis.title.text)
    """,
    "wide form": """
        import plotly.express as px
        figure = px.line(frame.set_index("day")[["width", "height"]])
        print([trace.name for trace in figure.data], [float(sum(trace.y)) for trace in figure.data], figure.data[0].x[:2])
        totals = frame.groupby(["colour", "grade"], observed=True)["count"].sum().reset_index()
        figure = px.sunburst(totals, path=["colour", "grade"], values="count")
        print(figure.data[0].labels.tolist(), figure.data[0].values.tolist())
    """,
    "columns": """
        import plotly.graph_objects as go
        figure = go.Figure([go.Scatter(x=frame["day"], y=frame["width"].cumsum()), go.Bar(x=frame["colour"], y=frame["count"])])
        print(type(figure.data[0].x), figure.data[0].y[-1].round(8), figure.to_json()[:500])
    """,
    "plot(backend='plotly')": """
        figure = frame.plot(x="day", y=["width", "height"], backend="plotly")
        print([trace.name for trace in figure.data], len(figure.data[0].x))
    """,
}

ALTAIR = {
    "a chart": """
        import altair as alt
        chart = alt.Chart(frame).mark_point().encode(x="width", y="height", color="colour", shape="grade:N", tooltip="day")
        made = chart.to_dict()
        print(made["encoding"], len(next(iter(made["datasets"].values()))), next(iter(made["datasets"].values()))[0])
        means = frame.groupby("colour")["width"].mean().round(8).reset_index()
        print(alt.Chart(means).mark_bar().encode(alt.X("colour").sort("-y"), alt.Y("width")).to_dict()["datasets"].values())
    """
}

MAPS = {
    "points and areas": """
        import geopandas
        points = geopandas.GeoDataFrame(
            frame[["colour", "count"]], geometry=geopandas.points_from_xy(frame["width"], frame["height"]), crs="EPSG:3857"
        )
        print(type(points).__name__, points.shape, points.total_bounds.round(8).tolist(), isinstance(points, pd.DataFrame))
        areas = points.dissolve("colour", aggfunc={"count": "sum"})
        print(areas["count"].to_string(), areas.geometry.geom_type.tolist())
        near = points[points["count"] > 4].assign(near=lambda one: one.distance(one.geometry.iloc[0]) < 1)
        print(near["near"].sum(), near.buffer(1).area.round(4).sum(), near.groupby("colour").size().to_string())
        joined = points.merge(frame[["grade"]], left_index=True, right_index=True)
        print(type(joined).__name__, joined["grade"].value_counts().to_string())
        print(geopandas.sjoin(points, areas.reset_index()[["geometry", "colour"]].buffer(0.2).to_frame("geometry")).shape)
    """
}


def test_plotly(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    check(PLOTLY, DATA, tmp_path)


def test_altair(tmp_path: Path) -> None:
    pytest.importorskip("altair")
    check(ALTAIR, DATA, tmp_path)


def test_geopandas(tmp_path: Path) -> None:
    pytest.importorskip("geopandas")
    check(MAPS, DATA, tmp_path)
