"""The calls for the table of native methods: a plain call of each method, and a non-default value for each parameter.

The calls are texts, so that each can be evaluated under pandas, too; calls that pandas refuses are not
counted. ``VALUES`` has values by parameter name, for all methods; the tables of single methods override them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: The variables that the calls use. They are computed again for each call, because some calls change their object.
SETUP = """
df = pd.DataFrame({
    "k": ["b", "a", "b", "c", "a", "b"],
    "g": [1, 2, 1, 2, 3, 1],
    "x": [1.5, np.nan, -2.0, 4.25, 0.5, 1.5],
    "y": [3, 1, 2, 2, 5, 4],
    "b": [True, False, True, True, False, False],
    "t": pd.to_datetime(["2024-01-31", "2024-02-29", None, "2023-12-31", "2024-05-01", "2024-02-29"]),
    "w": ["one two", "Three", None, "f-o-u-r", " five ", "6"],
})
num = df[["x", "y"]]
x, y, b, t, w = df["x"], df["y"], df["b"], df["t"], df["w"]
right = pd.DataFrame({"k": ["a", "b", "d"], "g": [2, 1, 1], "z": [10.0, 20.0, 30.0]})
"""

#: Parameter name to a non-default value, for all methods.
VALUES: dict[str, str] = {
    "as_index": "False",
    "ascending": "False",
    "axis": "1",
    "bins": "2",
    "case": "False",
    "closed": "'left'",
    "ddof": "0",
    "dropna": "False",
    "expand": "True",
    "ignore_index": "True",
    "inclusive": "'left'",
    "inplace": "True",
    "interpolation": "'lower'",
    "keep": "'last'",
    "level": "0",
    "limit": "1",
    "method": "'min'",
    "min_count": "2",
    "na": "False",
    "na_action": "'ignore'",
    "na_option": "'top'",
    "na_position": "'first'",
    "normalize": "True",
    "numeric_only": "True",
    "observed": "False",
    "pct": "True",
    "periods": "2",
    "regex": "True",
    "skipna": "False",
    "sort": "False",
    "subset": "['g']",
}


@dataclass(frozen=True, slots=True)
class Call:
    """The calls that try a method.

    Parameters
    ----------
    arguments
        The keyword arguments of the plain call.
    on
        The object on which the method is called; by default that of its class.
    parameters
        For each parameter, the arguments that are added to those of the plain call or replace them; in
        parentheses, all arguments of the call.
    """

    arguments: str = ""
    on: str = ""
    parameters: dict[str, str] = field(default_factory=dict)


def call(arguments: str = "", on: str = "", /, **parameters: str) -> Call:
    """Define the calls of a method, with a keyword argument for each parameter."""
    return Call(arguments, on, parameters)


_binary = call(
    "other=2", "num", level="(other=x, level=0, axis=0)", fill_value="fill_value=0", axis="(other=x, axis=0)"
)
_reduce = call("", "num")
_BINARY = (
    "add sub mul div truediv floordiv mod pow radd rsub rmul rtruediv rfloordiv rmod rpow eq ne lt le gt ge "
    "multiply subtract divide rdiv"
)
_REDUCING = (
    "sum mean median min max prod product std var sem skew kurt kurtosis count nunique quantile cumsum cumprod cummax "
    "cummin idxmin idxmax rank diff shift round abs mode agg aggregate transform apply map describe any all pct_change "
    "ffill bfill interpolate corr cov clip"
)

_shared: dict[str, Call] = {
    "droplevel": call("level=0", "df.set_index(['k', 'g'])", axis=""),
    "reorder_levels": call("order=[1, 0]", "df.set_index(['k', 'g'])", axis=""),
    "swaplevel": call("", "df.set_index(['k', 'g'])", axis=""),
    "agg": call("func='sum'", "num"),
    "aggregate": call("func='sum'", "num"),
    "apply": call("func=abs", "num"),
    "astype": call("dtype='float64'", "num", copy="", errors="errors='ignore'"),
    "clip": call("lower=1", "num", lower="lower=x.iloc[0]", upper="upper=3", axis="(lower=[0, 1], axis=1)"),
    "diff": call("", "num", periods="periods=-1"),
    "ewm": call("com=1"),
    "fillna": call("value=0.0", "num", value="value={'x': 1.0}", limit="limit=1"),
    "isin": call("values=[1, 2]"),
    "map": call("func=abs", "num"),
    "mask": call("cond=num > 1", "num", cond="cond=lambda f: f > 1", other="other=0.0"),
    "nlargest": call("n=2"),
    "nsmallest": call("n=2"),
    "pct_change": call("", "num"),
    "quantile": call("q=0.5", "num", q="q=[0.25, 0.75]"),
    "rank": call("", "num", method="method='dense'"),
    "reindex": call("index=[0, 2, 9]"),
    "replace": call(
        "to_replace=1, value=9",
        "num",
        to_replace="(to_replace={1: 9, 2: 8})",
        regex="(to_replace='^o', value='O', regex=True)",
    ),
    "resample": call("rule='D'", "t.dropna().sort_values().to_frame().set_index('t')"),
    "rolling": call("window=2", "num"),
    "round": call("decimals=1", "num"),
    "sample": call("n=2, random_state=1", frac="(frac=0.5, random_state=1)", weights="weights=[1, 2, 1, 1, 1, 1]"),
    "set_axis": call("labels=list('uvwxyz')", axis="(labels=list('ABCDEFG'), axis=1)"),
    "shift": call("periods=1", periods="periods=-1", fill_value="fill_value=0", freq="", suffix=""),
    "sort_index": call("", "df.sort_values('y')", kind="kind='stable'", key="key=lambda i: -i"),
    "take": call("indices=[0, 2]"),
    "transform": call("func=abs", "num"),
    "truncate": call("before=1, after=3"),
    "update": call("other=num * 2", "num"),
    "where": call("cond=num > 1", "num", cond="cond=lambda f: f > 1", other="other=0.0"),
    "xs": call("key=1"),
}

FRAME: dict[str, Call] = {
    **dict.fromkeys(_REDUCING.split(), _reduce),
    **dict.fromkeys(_BINARY.split(), _binary),
    **_shared,
    "add_prefix": call("prefix='p_'"),
    "add_suffix": call("suffix='_s'"),
    "assign": call("z=df['x'] + 1"),
    "combine_first": call("other=num * 2", "num"),
    "corrwith": call("other=num", "num"),
    "drop": call(
        "columns=['x']",
        labels="(labels=['x'], axis=1)",
        index="(index=[1, 2])",
        errors="(columns=['x', 'nope'], errors='ignore')",
    ),
    "drop_duplicates": call("", subset="subset=['k', 'g']", keep="subset=['k'], keep=False"),
    "dropna": call("", how="how='all'", thresh="thresh=6", subset="subset=['x']"),
    "duplicated": call("subset=['k']", subset="subset=['k', 'g']"),
    "eval": call("expr='x + y'", inplace="expr='z = x + y', inplace=True"),
    "from_arrow": call("data=pa.table({'x': [1]})"),
    "explode": call("column='k'"),
    "filter": call("items=['x', 'y']", like="(like='x')", regex="(regex='^[xy]$')", axis="(items=[0, 1], axis=0)"),
    "groupby": call("by='k'", by="by=['k', 'g']", level="(level=0)", group_keys="group_keys=False"),
    "insert": call("loc=0, column='z', value=1", allow_duplicates="loc=0, column='x', value=1, allow_duplicates=True"),
    "join": call(
        "other=right.set_index('k')['z'], on='k'", how="how='inner'", lsuffix="lsuffix='_l'", rsuffix="rsuffix='_r'"
    ),
    "melt": call(
        "id_vars='k', value_vars=['x', 'y']",
        var_name="var_name='v'",
        value_name="value_name='n'",
        ignore_index="ignore_index=False",
    ),
    "merge": call(
        "right=right, on='k'",
        how="how='outer'",
        on="on=['k', 'g']",
        left_on="(right=right, left_on='k', right_on='k')",
        right_on="(right=right, left_on='y', right_on='g')",
        left_index="(right=right, left_index=True, right_index=True)",
        right_index="(right=right.set_index('g'), left_on='y', right_index=True)",
        suffixes="suffixes=('_1', '_2')",
        indicator="indicator=True",
        validate="validate='m:1'",
        sort="sort=True",
    ),
    "nlargest": call("n=2, columns='y'", columns="columns=['y', 'x']"),
    "nsmallest": call("n=2, columns='y'", columns="columns=['y', 'x']"),
    "pivot": call("index='y', columns='k', values='x'", "df.drop_duplicates(['y', 'k'])"),
    "pivot_table": call(
        "index='k', columns='g', values='y'",
        aggfunc="aggfunc='sum'",
        margins="margins=True",
        fill_value="fill_value=0",
        values="values=['x', 'y']",
    ),
    "pop": call("item='x'"),
    "query": call("expr='x > 1 and k == \"b\"'"),
    "rename": call(
        "columns={'x': 'xx'}", mapper="(mapper=str.upper, axis=1)", index="(index={0: 10})", errors="errors='raise'"
    ),
    "rename_axis": call("mapper='rows'"),
    "reset_index": call("", "df.set_index('k')", drop="drop=True", names="names='kk'"),
    "select_dtypes": call("include='number'", exclude="(exclude='number')"),
    "set_index": call(
        "keys='k'", keys="keys=['k', 'g']", drop="drop=False", append="append=True", verify_integrity="keys='y'"
    ),
    "sort_values": call(
        "by='x'",
        by="by=['k', 'x']",
        kind="kind='stable'",
        ascending="by=['k', 'x'], ascending=[True, False]",
        key="key=lambda c: -c",
    ),
    "stack": call("", "num"),
    "transpose": call("", "num"),
    "unstack": call("", "df.set_index(['k', 'y'])[['x']]"),
    "value_counts": call("subset=['k']"),
}

SERIES: dict[str, Call] = {
    **{name: call("", "x") for name in _REDUCING.split()},
    **{name: call("other=2", "x", level="", axis="", fill_value="fill_value=0") for name in _BINARY.split()},
    **{
        name: Call(
            value.arguments,
            f"{value.on}['y']" if "set_index" in value.on else "y" if value.on in ("", "num") else value.on,
            value.parameters,
        )
        for name, value in _shared.items()
    },
    "agg": call("func='sum'", "x"),
    "apply": call("func=abs", "x"),
    "autocorr": call("", "x"),
    "between": call("left=1, right=3", "x"),
    "case_when": call("caselist=[(y > 2, 0)]", "y"),
    "clip": call("lower=1", "x", lower="lower=y", upper="upper=3"),
    "combine_first": call("other=x.fillna(0)", "x"),
    "corr": call("other=y", "x"),
    "cov": call("other=y", "x"),
    "dt": call("", "t"),
    "str": call("", "w"),
    "drop": call("labels=[1]", "y", index="(index=[1, 2])"),
    "fillna": call("value=0.0", "x", value="value=y", limit="limit=1"),
    "filter": call("items=[1, 2]", "y"),
    "from_arrow": call("data=pa.chunked_array([[1]])"),
    "groupby": call("by=df['k']", "x", level="(level=0)", group_keys="group_keys=False"),
    "map": call("func={1: 10, 2: 20}", "y", func="func=lambda v: v + 1"),
    "mask": call("cond=y > 2", "x", cond="cond=lambda s: s > 1", other="other=0.0"),
    "quantile": call("q=0.5", "x", q="q=[0.25, 0.75]"),
    "rename": call("index='z'", "y", index="index={0: 10}"),
    "repeat": call("repeats=2", "y"),
    "replace": call("to_replace=1, value=9", "y", to_replace="(to_replace={1: 9, 2: 8})"),
    "reset_index": call("", "y", drop="drop=True", name="name='n'"),
    "round": call("decimals=1", "x"),
    "searchsorted": call("value=2", "y"),
    "sort_index": call("", "y.sort_values()", kind="kind='stable'", key="key=lambda i: -i"),
    "sort_values": call("", "x", kind="kind='stable'", key="key=lambda c: -c"),
    "to_frame": call("", "y", name="name='n'"),
    "unstack": call("", "df.set_index(['k', 'y'])['x']"),
    "where": call("cond=y > 2", "x", cond="cond=lambda s: s > 1", other="other=0.0"),
}

STRINGS: dict[str, Call] = {
    "cat": call("others=df['k']", sep="sep='-'", na_rep="na_rep='?'"),
    "center": call("width=9", fillchar="fillchar='.'"),
    "contains": call("pat='o'", pat="pat='o.*r'", regex="regex=False", flags="flags=2"),
    "count": call("pat='o'"),
    "endswith": call("pat='o'"),
    "extract": call("pat='(o)'", expand="expand=False"),
    "extractall": call("pat='(o)'"),
    "find": call("sub='o'", start="start=2"),
    "findall": call("pat='o'"),
    "fullmatch": call("pat='Three'"),
    "get": call("i=0"),
    "index": call("sub=''"),
    "join": call("sep='-'"),
    "ljust": call("width=9", fillchar="fillchar='.'"),
    "match": call("pat='o'"),
    "pad": call("width=9", side="side='both'", fillchar="fillchar='.'"),
    "partition": call("sep='-'", expand="expand=False"),
    "removeprefix": call("prefix='o'"),
    "removesuffix": call("suffix='o'"),
    "repeat": call("repeats=2"),
    "replace": call(
        "pat='o', repl='0'",
        regex="pat='o+', regex=True",
        n="n=1",
        case="case=False",
        repl="repl=lambda m: 'X', regex=True",
    ),
    "rfind": call("sub='o'"),
    "rindex": call("sub=''"),
    "rjust": call("width=9", fillchar="fillchar='.'"),
    "rpartition": call("sep='-'", expand="expand=False"),
    "rsplit": call("pat='-'", n="n=1"),
    "slice": call("start=1, stop=3", step="step=2"),
    "slice_replace": call("start=0, stop=1, repl='X'"),
    "split": call("pat='-'", n="n=1"),
    "normalize": call("form='NFC'"),
    "startswith": call("pat='o'", pat="pat=('o', 'T')"),
    "strip": call("", to_strip="to_strip='o'"),
    "lstrip": call("", to_strip="to_strip='o'"),
    "rstrip": call("", to_strip="to_strip='o'"),
    "translate": call("table={111: 'O'}"),
    "wrap": call("width=4"),
    "zfill": call("width=9"),
}

DATES: dict[str, Call] = {
    **{
        name: call("", "(t - t.iloc[0]).dt")
        for name in ("components", "days", "microseconds", "nanoseconds", "seconds", "total_seconds", "to_pytimedelta")
    },
    "as_unit": call("unit='ns'"),
    "ceil": call("freq='D'"),
    "floor": call("freq='D'"),
    "round": call("freq='D'"),
    "strftime": call("date_format='%Y-%m'"),
    "to_period": call("freq='M'"),
    "tz_convert": call("tz='Europe/Paris'", "t.dt.tz_localize('UTC').dt"),
    "tz_localize": call("tz='UTC'"),
}

GROUPED: dict[str, Call] = {
    "agg": call("func='sum'", func="func=['sum', 'mean']"),
    "aggregate": call("func='sum'", func="func=['sum', 'mean']"),
    "apply": call("func=lambda f: f.sum()"),
    "ewm": call("com=1"),
    "filter": call("func=lambda f: len(f) > 1"),
    "get_group": call("name='b'"),
    "head": call("", n="n=1"),
    "nth": call("n=0"),
    "quantile": call("q=0.5", q="q=[0.25, 0.75]"),
    "resample": call("rule='D'", "df.assign(t=t).dropna(subset=['t']).set_index('t').groupby('g')['x']"),
    "rolling": call("window=2"),
    "sample": call("n=1, random_state=1"),
    "shift": call("periods=1", periods="periods=-1", fill_value="fill_value=0"),
    "tail": call("", n="n=1"),
    "take": call("indices=[0]"),
    "transform": call("func='sum'", func="func=lambda s: s - s.mean()"),
}

FUNCTIONS: dict[str, Call] = {
    "concat": call(
        "objs=[df, df]",
        axis="(objs=[num, df[['g']]], axis=1)",
        join="(objs=[df, num], join='inner')",
        keys="keys=['a', 'b']",
        names="keys=['a', 'b'], names=['n']",
        verify_integrity="",
    ),
    "crosstab": call("index=df['k'], columns=df['g']"),
    "cut": call("x=x, bins=2"),
    "factorize": call("values=df['k']"),
    "get_dummies": call("data=df['k']"),
    "isna": call("obj=df"),
    "melt": call("frame=df, id_vars='k', value_vars=['x', 'y']", var_name="var_name='v'", value_name="value_name='n'"),
    "merge": call(
        "left=df, right=right, on='k'",
        how="how='outer'",
        suffixes="suffixes=('_1', '_2')",
        indicator="indicator=True",
        validate="validate='m:1'",
        sort="sort=True",
    ),
    "merge_asof": call("left=df.sort_values('y'), right=right.sort_values('g'), left_on='y', right_on='g'"),
    "pivot_table": call("data=df, index='k', columns='g', values='y'"),
    "qcut": call("x=x, q=2"),
    "to_datetime": call(
        "arg=pd.Series(['2024-01-31', '2024-02-29'])",
        errors="(arg=pd.Series(['2024-01-31', 'x']), errors='coerce')",
        format="format='%Y-%m-%d'",
        utc="utc=True",
        unit="(arg=y, unit='s')",
        dayfirst="(arg=pd.Series(['31/01/2024']), dayfirst=True)",
    ),
    "to_numeric": call(
        "arg=pd.Series(['1', '2'])",
        errors="(arg=pd.Series(['1', 'x']), errors='coerce')",
        downcast="(arg=y, downcast='integer')",
    ),
    "read_csv": call(
        "filepath_or_buffer=folder / 'data.csv'",
        sep="sep=','",
        header="header=None",
        names="names=list('abcd'), header=0",
        index_col="index_col='k'",
        usecols="usecols=['k', 'x']",
        dtype="dtype={'y': 'float64'}",
        parse_dates="parse_dates=['t']",
        na_values="na_values=['b']",
        keep_default_na="keep_default_na=False",
        skiprows="skiprows=1",
        nrows="nrows=2",
        compression="compression=None",
        dtype_backend="dtype_backend='pyarrow'",
        engine="engine='pyarrow'",
        chunksize="chunksize=2",
        comment="comment='#'",
        date_format="parse_dates=['t'], date_format='%Y-%m-%d'",
        decimal="decimal=','",
        encoding="encoding='latin-1'",
        false_values="false_values=['no']",
        na_filter="na_filter=False",
        on_bad_lines="on_bad_lines='skip'",
        quotechar='quotechar="\'"',
        quoting="quoting=3",
        thousands="thousands='_'",
        true_values="true_values=['yes']",
    ),
    "read_feather": call(
        "path=folder / 'data.feather'", columns="columns=['x']", dtype_backend="dtype_backend='pyarrow'"
    ),
    "read_json": call("path_or_buf=folder / 'data.json', lines=True", nrows="nrows=2", dtype="dtype=False"),
    "read_orc": call("path=folder / 'data.orc'", columns="columns=['x']", dtype_backend="dtype_backend='pyarrow'"),
    "read_parquet": call(
        "path=folder / 'data.parquet'",
        engine="engine='pyarrow'",
        columns="columns=['x']",
        filters="filters=[('y', '>', 2)]",
        dtype_backend="dtype_backend='pyarrow'",
    ),
    "to_timedelta": call("arg=pd.Series([1, 2]), unit='s'"),
    "unique": call("values=df['k']"),
}

#: Forms of indexing and operators, which have no parameters.
FORMS: tuple[str, ...] = (
    "df['x']",
    "df[['x', 'y']]",
    "df[df['x'] > 1]",
    "df[1:3]",
    "df.loc[df['x'] > 1, 'y']",
    "df.loc[df['x'] > 1, ['x', 'y']]",
    "df.loc[1:3]",
    "df.loc[[0, 2]]",
    "df.loc[2]",
    "df.loc[:, 'x':'b']",
    "df.loc[lambda f: f['x'] > 1]",
    "df.set_index('k').loc['b']",
    "df.iloc[1:4]",
    "df.iloc[::2]",
    "df.iloc[::-1]",
    "df.iloc[[0, 2]]",
    "df.iloc[2]",
    "df.iloc[:, 1]",
    "df.iloc[1:3, [0, 2]]",
    "df.iloc[2, 1]",
    "x[b]",
    "x.loc[b]",
    "x.loc[1:3]",
    "x.iloc[-2:]",
    "df.__setitem__('z', df['x'] * 2)",
    "df.__setitem__(['x', 'y'], num * 2)",
    "df.__setitem__(df['k'] == 'b', 0)",
    "df.loc.__setitem__((df['x'] > 1, 'y'), 0)",
    "df.loc.__setitem__((df['x'] > 1, ['x', 'y']), 0)",
    "df.loc.__setitem__((2, 'y'), 0)",
    "df.iloc.__setitem__((slice(0, 2), 1), 0)",
    "df.__delitem__('x')",
    "'x' in df",
    "len(df[df['x'] > 1])",
    "df[df['x'] > 1].shape",
    "x + y",
    "x > y",
    "(x > 0) & b",
    "~b",
    "-num",
    "num @ num.T",
    "np.sqrt(x)",
)
