"""scikit-learn, Matplotlib and seaborn accept the frames of an accelerated program, and give the same results as with pandas."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from accelerated import DATA, check, output

SKLEARN = {
    "a model on a frame": """
        from sklearn.linear_model import LogisticRegression
        model = LogisticRegression().fit(frame[["width", "height", "count"]], frame["big"])
        print(list(model.feature_names_in_), model.coef_.round(8).tolist())
        print(model.predict(frame[["width", "height", "count"]].head(9)).tolist())
    """,
    "split, scale and encode in a pipeline": """
        from sklearn.compose import make_column_transformer
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.model_selection import cross_val_score, train_test_split
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder, StandardScaler
        train, test, a, b = train_test_split(frame.drop(columns=["big", "day"]), frame["big"], random_state=3)
        print(isinstance(train, pd.DataFrame), isinstance(a, pd.Series), train.shape, train.index[:5].tolist())
        scale, encode = (StandardScaler(), ["width", "height"]), (OneHotEncoder(), ["colour", "grade"])
        prepare = make_column_transformer(scale, encode)
        model = make_pipeline(prepare, RandomForestClassifier(10, random_state=0))
        print(cross_val_score(model, train, a, cv=3).round(8).tolist(), model.fit(train, a).score(test, b))
    """,
    "frames as results": """
        from sklearn.preprocessing import StandardScaler
        scaled = StandardScaler().set_output(transform="pandas").fit_transform(frame[["width", "height"]])
        print(isinstance(scaled, pd.DataFrame), list(scaled.columns), scaled.index.equals(frame.index))
        print(scaled.describe().round(8).to_string())
        print((scaled.join(frame["colour"]).groupby("colour").mean()).round(8).to_string())
    """,
    "metrics and imputation": """
        from sklearn.impute import SimpleImputer
        from sklearn.metrics import confusion_matrix, roc_auc_score
        holed = frame[["width", "height"]].where(frame["count"] > 1)
        print(SimpleImputer().fit_transform(holed).round(8)[:6].tolist())
        print(confusion_matrix(frame["big"], frame["width"] > 2).tolist())
        print(round(roc_auc_score(frame["big"], frame["height"]), 8))
    """,
    "nearest neighbours on a column": """
        from sklearn.neighbors import KNeighborsRegressor
        model = KNeighborsRegressor(3).fit(frame[["width"]].to_numpy(), frame["height"])
        print(model.predict(frame[["width"]].iloc[:5].values).round(8).tolist())
    """,
}

PLOTS = {
    "matplotlib with columns": """
        figure, (axes, bars) = plt.subplots(2)
        axes.plot(frame["day"], frame["width"].cumsum())
        axes.scatter("day", "height", data=frame, c="count")
        bars.bar(frame["colour"].value_counts().index, frame["colour"].value_counts())
        bars.hist(frame["height"], bins=7)
        axes.fill_between(frame["day"], frame["width"], frame["height"])
    """,
    "the plot accessor": """
        axes = frame.plot(x="day", y=["width", "height"])
        figure = axes.figure
        frame.groupby("colour")["width"].mean().plot.bar(ax=axes)
        frame.plot.scatter(x="width", y="height")
        frame["height"].plot.hist(ax=axes)
        frame.boxplot(column="width", by="colour")
    """,
    "seaborn, long form": """
        figure, (one, two, three) = plt.subplots(1, 3)
        sns.scatterplot(frame, x="width", y="height", hue="colour", size="count", style="grade", ax=one)
        sns.boxplot(frame, x="grade", y="height", hue="colour", ax=two)
        sns.histplot(data=frame, x="width", hue="grade", kde=False, ax=three)
    """,
    "seaborn, wide form and figures": """
        sns.heatmap(frame[["width", "height", "count"]].corr(), annot=True)
        figure = plt.gcf()
        sns.lineplot(frame[["width", "height"]], ax=figure.axes[0])
        grid = sns.relplot(frame, x="width", y="height", col="grade", hue="colour")
        sns.catplot(frame, x="colour", y="height", kind="bar", errorbar=None)
        sns.pairplot(frame[["width", "height", "colour"]], hue="colour", diag_kind="hist")
        sns.regplot(frame, x="width", y="height", ci=None)
        print(grid.data.shape)
    """,
}

PLOTTING = """
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import seaborn as sns
"""

DRAWN = """
for number in plt.get_fignums():
    one = plt.figure(number)
    one.canvas.draw()
    for axes in one.axes:
        print(axes.get_xlabel(), axes.get_ylabel(), axes.get_title())
        print([text.get_text() for text in axes.get_xticklabels()])
        print([round(float(np.nansum(np.asarray(line.get_ydata(), float))), 6) for line in axes.lines])
        print([len(points.get_offsets()) for points in axes.collections])
        print(sorted(round(float(patch.get_height()), 6) for patch in axes.patches if hasattr(patch, "get_height")))
plt.close("all")
"""


def test_scikit_learn(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    check(SKLEARN, DATA, tmp_path)


def test_matplotlib_and_seaborn(tmp_path: Path) -> None:
    pytest.importorskip("seaborn")
    check(PLOTS, PLOTTING + DATA, tmp_path, after=DRAWN)


def test_libraries_keep_pandas(tmp_path: Path) -> None:
    program = """
        import sys
        import pandas as pd
        import seaborn.axisgrid, sklearn.utils, matplotlib, pyarrow, polars
        print(seaborn.axisgrid.pd.__name__, sys.modules["pandas"].__name__, pd.__name__)
        import pyarrow as pa
        frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
        print(pa.table(frame).schema.names, pa.Table.from_pandas(frame).num_rows, polars.from_pandas(frame).shape)
    """
    out = output(textwrap.dedent(program), tmp_path, accelerated=True).splitlines()
    assert out == ["pandas pandas craton.pandas", "['a', 'b'] 2 (2, 2)"]
