"""Generates the files of those notebooks that read tables of numbers: flights, trips, people, seasons, trades."""

from __future__ import annotations

import numpy as np
import pandas as pd

from bench.notebooks.files import Files, some_missing, texts

__all__ = ["baseball", "census", "flights", "taxi", "ticks"]

_LETTERS = np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))


def _codes(rng: np.random.Generator, count: int, letters: int) -> np.ndarray:
    """Distinct codes of a few letters."""
    found = np.unique(["".join(one) for one in _LETTERS[rng.integers(0, 26, (3 * count, letters))]])
    return rng.permutation(found)[:count]


def flights(rows: int, rng: np.random.Generator) -> Files:
    """Flights of 2013, with the carriers, airports, aircraft and weather that they refer to."""
    dests, carriers = _codes(rng, 100, 3), _codes(rng, 16, 2)
    tails = np.array([f"N{number:05}" for number in range(max(rows // 100, 20))])
    date = np.datetime64("2013-01-01") + rng.integers(0, 365, rows).astype("timedelta64[D]")
    dates = pd.DatetimeIndex(date)
    hour, minute = rng.integers(5, 24, rows), rng.integers(0, 12, rows) * 5
    dep_delay = np.round(rng.gamma(1.2, 15, rows) - 8)
    distance = rng.integers(100, 2600, 100)
    dest = rng.integers(0, 100, rows)
    air_time = np.round(distance[dest] / rng.uniform(6.5, 8.5, rows) + 15)
    late = (hour * 60 + minute + dep_delay).astype("int64") % 1440
    gone = rng.random(rows) < 0.025
    table = pd.DataFrame(
        {
            "year": 2013,
            "month": dates.month,
            "day": dates.day,
            "dep_time": np.where(gone, np.nan, late // 60 * 100 + late % 60),
            "sched_dep_time": hour * 100 + minute,
            "dep_delay": np.where(gone, np.nan, dep_delay),
            "arr_delay": np.where(
                gone | (rng.random(rows) < 0.003), np.nan, dep_delay + np.round(rng.normal(-5, 18, rows))
            ),
            "carrier": carriers[(rng.random(rows) ** 2 * 16).astype("int64")],
            "flight": rng.integers(1, 6000, rows),
            "tailnum": some_missing(rng, tails[rng.integers(0, len(tails), rows)], 0.008),
            "origin": np.array(["EWR", "JFK", "LGA"])[rng.integers(0, 3, rows)],
            "dest": dests[dest],
            "air_time": np.where(gone, np.nan, air_time),
            "distance": distance[dest],
        }
    )
    known = rng.permutation(100)[:93]
    airports = pd.DataFrame(
        {
            "faa": dests[known],
            "name": [f"{dests[at].title()} Regional" for at in known],
            "lat": rng.uniform(25, 48, 93).round(4),
            "lon": rng.uniform(-122, -68, 93).round(4),
            "alt": rng.integers(0, 7000, 93),
        }
    )
    hours = np.arange(np.datetime64("2013-01-01T00"), np.datetime64("2014-01-01T00"))
    count = 3 * len(hours)
    weather = pd.DataFrame(
        {
            "origin": np.repeat(["EWR", "JFK", "LGA"], len(hours)),
            "time_hour": [f"{one}:00:00".replace("T", " ") for one in np.tile(hours.astype(str), 3)],
            "temp": rng.normal(55, 18, count).round(2),
            "wind_speed": np.where(rng.random(count) < 0.01, np.nan, rng.gamma(4, 2.6, count).round(3)),
            "precip": np.where(rng.random(count) < 0.9, 0.0, rng.exponential(0.05, count).round(2)),
            "visib": rng.choice([10.0, 9.0, 5.0, 1.25], count, p=[0.85, 0.08, 0.05, 0.02]),
        }
    )[rng.random(count) < 0.995]
    built = tails[rng.random(len(tails)) < 0.85]
    planes = pd.DataFrame(
        {
            "tailnum": built,
            "year": np.where(rng.random(len(built)) < 0.02, np.nan, rng.integers(1985, 2014, len(built))),
            "manufacturer": rng.choice(["BOEING", "AIRBUS", "EMBRAER", "BOMBARDIER INC", "CESSNA"], len(built)),
            "seats": rng.choice([20, 55, 80, 142, 182, 200, 330], len(built)),
        }
    )
    airlines = pd.DataFrame({"carrier": carriers[:15], "name": [f"{code} Airways" for code in carriers[:15]]})
    named = {"flights": table, "airlines": airlines, "airports": airports, "planes": planes, "weather": weather}
    return {f"{name}.csv": frame for name, frame in named.items()}


def taxi(rows: int, rng: np.random.Generator) -> Files:
    """Trips of three months, some of them twice or with impossible values, and the zones of the city."""
    seconds = rng.integers(-86_400, 91 * 86_400, rows)
    pickup = np.datetime64("2023-01-01T00:00:00", "us") + seconds.astype("timedelta64[s]")
    distance = np.where(rng.random(rows) < 0.01, 0, rng.gamma(1.3, 2.5, rows)).round(2)
    took = (distance * rng.uniform(120, 480, rows) + rng.integers(30, 300, rows)).astype("int64")
    fare = (3 + 2.5 * distance + took / 200).round(2) * np.where(rng.random(rows) < 0.005, -1, 1)
    payment = rng.choice([1, 2, 3, 4, 0], rows, p=[0.75, 0.18, 0.02, 0.02, 0.03])
    tip = np.where(payment == 1, (fare * rng.choice([0, 0.1, 0.15, 0.2, 0.25, 0.3], rows)).round(2), 0.0)
    tolls = np.where(rng.random(rows) < 0.06, 6.55, 0.0)
    trips = pd.DataFrame(
        {
            "VendorID": rng.integers(1, 3, rows),
            "tpep_pickup_datetime": pickup,
            "tpep_dropoff_datetime": pickup + took.astype("timedelta64[s]"),
            "passenger_count": np.where(
                rng.random(rows) < 0.03, np.nan, rng.choice([1, 1, 1, 2, 2, 3, 4, 5, 6, 0], rows)
            ),
            "trip_distance": distance,
            "PULocationID": (rng.random(rows) ** 1.5 * 262).astype("int64") + 1,
            "DOLocationID": rng.integers(1, 266, rows),
            "payment_type": payment,
            "fare_amount": fare,
            "tip_amount": tip,
            "tolls_amount": tolls,
            "total_amount": (fare + tip + tolls + 2.5).round(2),
        }
    )
    again = rng.integers(0, rows, max(rows // 500, 1))
    boroughs = ["Manhattan", "Brooklyn", "Queens", "Bronx", "Staten Island", "EWR"]
    zones = pd.DataFrame(
        {
            "LocationID": np.arange(1, 261),
            "Borough": rng.choice(boroughs, 260, p=[0.3, 0.24, 0.24, 0.15, 0.06, 0.01]),
            "Zone": [f"Zone {number:03}" for number in range(1, 261)],
            "service_zone": rng.choice(["Yellow Zone", "Boro Zone"], 260),
        }
    )
    return {"trips.parquet": pd.concat([trips, trips.iloc[again]], ignore_index=True), "zones.csv": zones}


def census(rows: int, rng: np.random.Generator) -> Files:
    """People with their education, work and income; the file has no header, and blanks after the commas."""
    levels = np.array(["Preschool", "HS-grad", "Some-college", "Bachelors", "Masters", "Doctorate"])
    years = np.array([1, 9, 10, 13, 14, 16])
    at = rng.choice(6, rows, p=[0.02, 0.38, 0.27, 0.2, 0.1, 0.03])
    sex = rng.choice(["Male", "Female"], rows, p=[0.67, 0.33])
    hours = np.clip(np.round(rng.normal(40, 11, rows)), 1, 99).astype("int64")
    chance = 0.03 + 0.05 * at + 0.004 * (hours - 30) + np.where(sex == "Male", 0.05, 0)
    jobs = [
        "Tech-support",
        "Craft-repair",
        "Sales",
        "Exec-managerial",
        "Prof-specialty",
        "Adm-clerical",
        "Farming",
        "Transport",
    ]
    places = np.array(["United-States", *(f"Country-{number}" for number in range(40))])
    place = np.where(rng.random(rows) < 0.9, 0, 1 + (rng.random(rows) ** 2 * 40).astype("int64"))
    columns = {
        "age": np.clip(np.round(rng.gamma(6, 6.5, rows)), 17, 90).astype("int64"),
        "workclass": rng.choice(
            ["Private", "Self-emp-inc", "Self-emp-not-inc", "State-gov", "?"], rows, p=[0.7, 0.05, 0.1, 0.1, 0.05]
        ),
        "weight": rng.integers(12_000, 400_000, rows),
        "education": levels[at],
        "education_years": years[at],
        "marital": rng.choice(
            ["Married-civ-spouse", "Never-married", "Divorced", "Married-AF-spouse", "Widowed"], rows
        ),
        "occupation": rng.choice([*jobs, "?"], rows),
        "relationship": rng.choice(["Husband", "Wife", "Own-child", "Unmarried"], rows),
        "race": rng.choice(["White", "Black", "Asian-Pac-Islander", "Other"], rows, p=[0.8, 0.1, 0.06, 0.04]),
        "sex": sex,
        "gain": np.where(rng.random(rows) < 0.08, rng.choice([2174, 5013, 7688, 15_024, 99_999], rows), 0),
        "loss": np.where(rng.random(rows) < 0.05, rng.choice([1485, 1887, 2415], rows), 0),
        "hours": hours,
        "country": np.where(rng.random(rows) < 0.02, "?", places[place]),
        "income": np.where(rng.random(rows) < chance, ">50K", "<=50K"),
    }
    joined = pd.Series([""] * rows, dtype="object")
    for number, values in enumerate(columns.values()):
        joined = joined + (", " if number else "") + pd.Series(values).astype(str).astype("object")
    return {"census.csv": joined.tolist()}


def baseball(rows: int, rng: np.random.Generator) -> Files:
    """Seasons of players from 1980 to 2019, one row for each team of a season, with people, teams and salaries."""
    count = max(rows // 8, 30)
    ids = np.array([f"player{number:06}" for number in range(count)])
    player = np.sort(rng.integers(0, count, rows))
    debut = rng.integers(1980, 2012, count)
    nth = np.arange(rows) - np.searchsorted(player, player)
    year = np.minimum(debut[player] + nth, 2019)
    stint = np.where((nth > 0) & (rng.random(rows) < 0.06), 2, 1)
    year = np.where(stint == 2, year - 1, year)
    teams = np.array([f"T{number:02}" for number in range(30)])
    ab = np.clip(rng.gamma(1.5, 170, rows), 0, 680).astype("int64")
    talent = rng.normal(0.25, 0.03, count)[player]
    h = rng.binomial(ab, np.clip(talent, 0.1, 0.4))
    power = np.clip(rng.normal(0.1, 0.05, count), 0.01, 0.3)[player]
    hr, doubles = rng.binomial(h, power), 0
    doubles = rng.binomial(h - hr, 0.2)
    triples = rng.binomial(h - hr - doubles, 0.03)
    walks = rng.binomial(ab, 0.09)
    batting = pd.DataFrame(
        {
            "playerID": ids[player],
            "yearID": year,
            "stint": stint,
            "teamID": teams[rng.integers(0, 30, rows)],
            "G": np.minimum(ab // 4 + rng.integers(0, 10, rows), 162),
            "AB": ab,
            "R": rng.binomial(h + walks, 0.35),
            "H": h,
            "2B": doubles,
            "3B": triples,
            "HR": hr,
            "RBI": np.where(rng.random(rows) < 0.01, np.nan, rng.binomial(h, 0.45)),
            "BB": walks,
            "SO": rng.binomial(ab, 0.2),
        }
    )
    born = debut - rng.integers(19, 29, count)
    month = rng.integers(1, 13, count)
    people = pd.DataFrame(
        {
            "playerID": ids,
            "nameFirst": some_missing(
                rng, rng.choice(["Al", "Bo", "Cy", "Dee", "Ed", "Frank", "José", "Hank"], count), 0.01
            ),
            "nameLast": [f"{one.title()}" for one in _codes(rng, 300, 6)[rng.integers(0, 300, count)]],
            "birthYear": some_missing(rng, born.astype("float64"), 0.02),
            "birthMonth": month,
            "birthDay": rng.integers(1, 31, count),
            "bats": some_missing(rng, rng.choice(["R", "L", "B"], count, p=[0.6, 0.3, 0.1]), 0.03),
            "debut": [
                f"{y}-{m:02}-{d:02}"
                for y, m, d in zip(debut, rng.integers(4, 10, count), rng.integers(1, 29, count), strict=True)
            ],
        }
    )
    years = np.arange(1981, 2021)
    won = rng.integers(55, 106, 30 * len(years))
    team_table = pd.DataFrame(
        {"yearID": np.repeat(years, 30), "teamID": np.tile(teams, len(years)), "W": won, "L": 162 - won}
    )
    paid = batting.drop_duplicates(["playerID", "yearID"])[["playerID", "yearID", "teamID"]].sample(
        frac=0.6, random_state=4
    )
    salaries = paid.assign(salary=(rng.pareto(1.5, len(paid)) * 500_000 + 60_000).round(-2).astype("int64"))
    return {"batting.csv": batting, "people.csv": people, "teams.csv": team_table, "salaries.csv": salaries}


def ticks(rows: int, rng: np.random.Generator) -> Files:
    """Trades and quotes of ten symbols on business days, and the sectors of the symbols."""
    symbols = np.array(["AAPX", "AMZX", "BACX", "CATX", "DISX", "GEX", "IBX", "JPX", "MSX", "XOX"])
    days = pd.bdate_range("2024-01-02", periods=20).to_numpy().astype("datetime64[us]")

    def moments(count: int) -> np.ndarray:
        inside = (rng.beta(0.7, 0.7, count) * 6.5 * 3600e6).astype("int64").astype("timedelta64[us]")
        return days[rng.integers(0, len(days), count)] + np.timedelta64(34_200_000_000, "us") + inside

    def prices(time: np.ndarray, symbol: np.ndarray) -> np.ndarray:
        elapsed = (time - days[0]).astype("int64") / 1e12
        return 40 + 25 * symbol + (1 + symbol) * np.sin(elapsed * (1.3 + symbol / 7)) * 1.5

    time, symbol = moments(rows), rng.integers(0, 10, rows)
    trades = pd.DataFrame(
        {
            "time": time,
            "symbol": texts(symbols[symbol]),
            "price": (prices(time, symbol) + rng.normal(0, 0.04, rows)).round(2),
            "size": rng.choice([1, 10, 50, 100, 200, 500, 1000], rows),
        }
    ).drop_duplicates(["time", "symbol"])
    time, symbol = moments(2 * rows), rng.integers(0, 10, 2 * rows)
    middle = prices(time, symbol)
    half = rng.choice([0.01, 0.02, 0.03, 0.05], 2 * rows)
    quotes = pd.DataFrame(
        {
            "time": time,
            "symbol": texts(symbols[symbol]),
            "bid": (middle - half).round(2),
            "ask": (middle + half).round(2),
            "bid_size": rng.integers(1, 50, 2 * rows),
        }
    ).drop_duplicates(["time", "symbol"])
    sectors = [
        "technology",
        "retail",
        "finance",
        "industry",
        "media",
        "industry",
        "technology",
        "finance",
        "technology",
        "energy",
    ]
    named = pd.DataFrame({"symbol": symbols, "sector": sectors})
    return {"trades.parquet": trades, "quotes.parquet": quotes, "symbols.csv": named}
