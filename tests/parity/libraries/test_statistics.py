"""statsmodels, lifelines, XGBoost and LightGBM fit models to the frames of an accelerated program, with the same results as with pandas."""

from __future__ import annotations

from pathlib import Path

import pytest
from accelerated import DATA, check

STATSMODELS = {
    "a formula": """
        import statsmodels.formula.api as smf
        model = smf.ols("height ~ width + C(colour)", data=frame).fit()
        print(model.params.round(8).to_string(), type(model.params) is type(model.resid), model.rsquared.round(8))
        print(model.resid.groupby(frame["colour"]).mean().abs().max() < 1e-9, model.fittedvalues.index[:4].tolist())
        print(model.predict(pd.DataFrame({"width": [1.0, 2.0], "colour": ["red", "blue"]})).round(6).tolist())
    """,
    "columns": """
        import statsmodels.api as sm
        model = sm.Logit(frame["big"], sm.add_constant(frame[["width", "count"]])).fit(disp=0)
        print(model.params.round(5).to_string(), model.pvalues.index.tolist())
        print(model.summary2().tables[1].columns.tolist())
    """,
    "a series over time": """
        from statsmodels.tsa.seasonal import seasonal_decompose
        from statsmodels.tsa.stattools import acf
        series = frame.set_index("day")["width"].resample("D").mean().ffill()
        print(acf(series, nlags=3).round(8).tolist())
        parts = seasonal_decompose(series, period=7)
        print(parts.trend.dropna().round(8).head(3).to_string(), parts.seasonal.index.equals(series.index))
    """,
}

LIFELINES = {
    "survival": """
        from lifelines import CoxPHFitter, KaplanMeierFitter
        times = frame.assign(time=frame["count"] + 1.0, died=frame["big"])
        curve = KaplanMeierFitter().fit(times["time"], times["died"], label="all")
        print(curve.survival_function_.round(8).to_string(), curve.median_survival_time_)
        for colour, part in times.groupby("colour"):
            print(colour, KaplanMeierFitter().fit(part["time"], part["died"]).survival_function_.iloc[-1].round(8).tolist())
        model = CoxPHFitter().fit(times[["time", "died", "width", "height"]], "time", "died")
        print(model.params_.round(5).to_string())
        print(model.predict_partial_hazard(times[["width", "height"]]).head(3).round(4).to_string())
    """
}

TREES = {
    "XGBoost": """
        import xgboost
        x = frame[["width", "height", "count", "grade"]]
        model = xgboost.XGBClassifier(n_estimators=5, max_depth=2, enable_categorical=True, n_jobs=1).fit(x, frame["big"])
        print(model.get_booster().feature_names, model.get_booster().feature_types)
        print(model.predict(x).tolist(), model.predict_proba(x)[:3, 1].round(5).tolist())
        matrix = xgboost.DMatrix(frame[["width", "height"]], label=frame["big"], weight=frame["count"])
        print(matrix.num_row(), matrix.feature_names, matrix.get_label().sum(), matrix.get_weight().sum())
    """,
    "LightGBM": """
        import lightgbm
        x = frame[["width", "height", "count", "grade"]]
        model = lightgbm.LGBMClassifier(n_estimators=5, num_leaves=4, verbose=-1, n_jobs=1).fit(x, frame["big"])
        print(model.feature_name_, model.predict(x).tolist(), model.predict_proba(x)[:3, 1].round(5).tolist())
        data = lightgbm.Dataset(frame[["width", "height"]], label=frame["big"]).construct()
        print(data.num_data(), data.feature_name, data.get_label().sum())
    """,
}


def test_statsmodels(tmp_path: Path) -> None:
    pytest.importorskip("statsmodels")
    check(STATSMODELS, DATA, tmp_path)


def test_lifelines(tmp_path: Path) -> None:
    pytest.importorskip("lifelines")
    check(LIFELINES, DATA, tmp_path)


@pytest.mark.parametrize(("module", "name"), [("xgboost", "XGBoost"), ("lightgbm", "LightGBM")])
def test_trees(module: str, name: str, tmp_path: Path) -> None:
    pytest.importorskip(module)
    check({name: TREES[name]}, DATA, tmp_path)
