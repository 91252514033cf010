"""Trades and quotes of a few stocks: spreads, bars, returns, volatility and a moving-average strategy."""

# %% Imports
import numpy as np
import pandas as pd

# %% Reading
trades = pd.read_parquet("trades.parquet")
quotes = pd.read_parquet("quotes.parquet")
reference = pd.read_csv("symbols.csv")
print(trades.head())
print(quotes.head())
print(trades.dtypes, len(trades), len(quotes))
print(trades.groupby("symbol").agg(n=("price", "size"), first=("time", "min"), last=("time", "max")))

# %% Trades with the quote before them
trades = trades.sort_values("time")
quotes = quotes.sort_values("time")
joined = pd.merge_asof(trades, quotes, on="time", by="symbol", tolerance=pd.Timedelta("10min"))
print(joined.head())
print(joined["bid"].isna().sum())
joined["mid"] = (joined["bid"] + joined["ask"]) / 2
joined["spread"] = joined["ask"] - joined["bid"]
joined["side"] = np.sign(joined["price"] - joined["mid"])
joined["effective"] = 2 * (joined["price"] - joined["mid"]).abs()
print(joined[["spread", "effective"]].describe().round(4))
print(joined.groupby("symbol")["side"].value_counts().unstack())
flow = joined.assign(signed=joined["side"] * joined["size"]).groupby("symbol")["signed"].sum()
print(flow)

# %% Volume-weighted prices
trades["value"] = trades["price"] * trades["size"]
trades["day"] = trades["time"].dt.date
vwap = trades.groupby(["symbol", "day"])[["value", "size"]].sum()
vwap["vwap"] = vwap["value"] / vwap["size"]
print(vwap.head(6).round(3))
running = trades.groupby(["symbol", "day"])[["value", "size"]].cumsum()
trades["running_vwap"] = running["value"] / running["size"]
print(trades[["symbol", "time", "price", "running_vwap"]].tail())
above = (trades["price"] > trades["running_vwap"]).groupby(trades["symbol"]).mean()
print(above.round(4))

# %% Bars
bars = trades.set_index("time").groupby("symbol")["price"].resample("30min").ohlc()
print(bars.head(6).round(3))
volume = trades.set_index("time").groupby("symbol")["size"].resample("30min").sum()
bars["volume"] = volume
bars = bars[bars["volume"] > 0]
print(bars.groupby(level="symbol").tail(1).round(3))
bars["range"] = (bars["high"] - bars["low"]) / bars["open"]
print(bars["range"].groupby(level=0).agg(["mean", "max"]).round(5))
by_time = bars.reset_index()
by_time["clock"] = by_time["time"].dt.strftime("%H:%M")
print(by_time.groupby("clock")["volume"].mean().round(1).head(6))

# %% Daily closes
close = bars["close"].reset_index().assign(day=lambda d: d["time"].dt.normalize())
close = close.groupby(["day", "symbol"])["close"].last().unstack()
print(close.head().round(3))
close = close.ffill()
returns = np.log(close).diff().dropna(how="all")
print(returns.mean().round(5).to_dict())
print(returns.corr().round(3))
print((returns.std() * np.sqrt(252)).round(4))
relative = close / close.iloc[0] * 100
print(relative.tail(3).round(2))
print(relative.rank(axis=1, ascending=False).iloc[-1].astype(int))

# %% Moving averages
fast, slow = close.ewm(span=3, adjust=False).mean(), close.rolling(5).mean()
signal = (fast > slow).astype(int)
position = signal.shift(1).fillna(0)
profit = (position * returns).sum(axis=1)
print(profit.head(8).round(5))
equity = profit.cumsum().apply(np.exp)
drawdown = equity / equity.cummax() - 1
print(round(equity.iloc[-1], 5), round(drawdown.min(), 5), drawdown.idxmin())
trades_made = signal.diff().abs().sum()
print(trades_made)

# %% Volatility within a day
one = trades[trades["symbol"] == trades["symbol"].iloc[0]].set_index("time")["price"]
moving = one.rolling("1h").agg(["mean", "std", "count"])
print(moving.tail(5).round(4))
z = (one - moving["mean"]) / moving["std"]
print(z.abs().gt(3).sum(), z.abs().max().round(4))
minute = one.resample("5min").last().ffill()
realised = minute.pct_change().pow(2).resample("D").sum().pow(0.5)
print(realised.head().round(6))
print(one.between_time("09:30", "10:00").groupby(lambda t: t.day).mean().head(3).round(4))
lagged = pd.concat({f"lag {i}": minute.pct_change().shift(i) for i in range(4)}, axis=1)
print(lagged.corr().iloc[0].round(4))

# %% Gaps between trades
trades["gap"] = trades.groupby("symbol")["time"].diff()
print(trades["gap"].describe())
print(trades.groupby("symbol")["gap"].max())
silent = trades[trades["gap"] > pd.Timedelta("5min")]
print(silent.groupby(silent["time"].dt.hour).size())
trades["burst"] = trades["gap"].gt(pd.Timedelta("30s")).groupby(trades["symbol"]).cumsum()
bursts = trades.groupby(["symbol", "burst"]).agg(n=("price", "size"), first=("price", "first"), last=("price", "last"))
print(bursts["n"].groupby(level=0).max())
bursts["move"] = bursts["last"] - bursts["first"]
print(bursts.loc[bursts["n"] > 5, "move"].describe().round(4))

# %% Sectors
trades = trades.merge(reference, on="symbol", how="left")
trades["large"] = trades["size"] >= trades.groupby("symbol")["size"].transform("quantile", 0.95)
print(trades.groupby("sector", sort=False)["large"].mean().round(4))
pivot = trades.pivot_table(index="sector", columns="large", values="value", aggfunc="sum", margins=True)
print(pivot.round(0))
weights = trades.groupby("symbol")["value"].sum().div(trades["value"].sum())
print(weights.sort_values(ascending=False).cumsum().round(4))

# %% Writing
bars.reset_index().to_parquet("bars.parquet", index=False)
returns.to_csv("returns.csv")
