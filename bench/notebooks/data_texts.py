"""Generates the files of those notebooks that read much text or several kinds of files: logs, answers, readings, reviews, orders."""

from __future__ import annotations

import numpy as np
import pandas as pd

from bench.notebooks.files import Files, some_missing, texts

__all__ = ["logs", "sensors", "shop", "survey", "texts_of_reviews"]


def _pick(rng: np.random.Generator, values: list[str], count: int, chances: list[float] | None = None) -> np.ndarray:
    return np.array(values, dtype=object)[rng.choice(len(values), count, p=chances)]


def _joined(*parts: object) -> np.ndarray:
    """The concatenation of texts, row by row."""
    total: object = ""
    for part in parts:
        total = total + (part.astype(str).astype(object) if isinstance(part, np.ndarray) else part)  # type: ignore[operator]
    assert isinstance(total, np.ndarray)
    return total


def logs(rows: int, rng: np.random.Generator) -> Files:
    """Lines of a web server's log over a week; some cannot be parsed."""
    paths = [
        "/",
        "/login",
        "/search",
        "/cart",
        "/about.html",
        "/static/site.css",
        "/static/app.js",
        "/img/logo.png",
        "/robots.txt",
    ]
    paths += [f"/item/{number}" for number in range(200)] + [f"/blog/{number}/post" for number in range(40)]
    chances = np.array([12, 4, 10, 5, 1, 8, 8, 8, 0.2, *[0.3] * 200, *[0.2] * 40])
    path = _pick(rng, paths, rows, list(chances / chances.sum()))
    words = ["lamp", "desk", "red+chair", "sofa+bed", "lamp+shade", "rug"]
    search = _joined("?q=", _pick(rng, words, rows), "&page=", rng.integers(1, 5, rows))
    campaign = _joined(
        "?utm_source=", _pick(rng, ["mail", "ads"], rows), "&utm_medium=", _pick(rng, ["cpc", "social"], rows)
    )
    query = np.where(path == "/search", search, np.where(rng.random(rows) < 0.03, campaign, ""))
    hosts = max(rows // 30, 10)
    numbers = rng.integers(0, 256, (hosts, 4))
    addresses = np.array(
        [".".join(map(str, (10 + one[0] % 8, one[1] % 4, one[2], one[3]))) for one in numbers], dtype=object
    )
    seconds = np.sort(rng.integers(0, 7 * 86_400, rows))
    moments = pd.Timestamp("2024-03-04") + pd.to_timedelta(seconds, unit="s")
    agents = [
        "Mozilla/5.0 (X11; Linux)",
        "Mozilla/5.0 (Windows NT 10.0)",
        "Googlebot/2.1 (+http://bot)",
        "curl/8.4.0",
        "-",
        "my-Spider",
    ]
    referrers = [
        "-",
        "https://www.search.example/find",
        "https://shop.example/",
        "http://news.example/a?b=c",
        "https://blog.example/x",
    ]
    status = rng.choice([200, 304, 301, 404, 403, 500, 502], rows, p=[0.8, 0.08, 0.03, 0.05, 0.01, 0.02, 0.01])
    size = np.where(status == 304, "-", rng.integers(80, 90_000, rows).astype(str))
    lines = _joined(
        addresses[rng.integers(0, hosts, rows)],
        " - ",
        _pick(rng, ["-", "-", "-", "ann", "bob", "eve"], rows),
        " [",
        np.array(moments.strftime("%d/%b/%Y:%H:%M:%S +0000")),
        '] "',
        _pick(rng, ["GET", "POST", "HEAD"], rows, [0.9, 0.08, 0.02]),
        " ",
        path,
        query,
        ' HTTP/1.1" ',
        status,
        " ",
        size,
        ' "',
        _pick(rng, referrers, rows, [0.4, 0.2, 0.25, 0.1, 0.05]),
        '" "',
        _pick(rng, agents, rows, [0.5, 0.3, 0.08, 0.05, 0.04, 0.03]),
        '"',
    )
    lines[rng.random(rows) < 0.001] = "connection reset by peer"
    return {"access.log": list(lines)}


def survey(rows: int, rng: np.random.Generator) -> Files:
    """Answers of developers, most columns of which are text, and the questions."""
    languages = ["Python", "SQL", "JavaScript", "Java", "R", "C++", "Go", "Rust", "TypeScript", "C#", "Julia", "Kotlin"]
    scale = ["Strongly disagree", "Disagree", "Neutral", "Agree", "Strongly agree"]

    def several() -> pd.Series:
        chosen = rng.random((rows, 12)) < np.linspace(0.5, 0.05, 12)
        total = np.full(rows, "", dtype=object)
        for number, language in enumerate(languages):
            total = np.where(chosen[:, number], total + ";" + language, total)
        return pd.Series(total).str.removeprefix(";").replace("", None)

    per = rng.choice(["year", "month"], rows, p=[0.9, 0.1])
    amount = (rng.lognormal(11, 0.6, rows) / np.where(per == "month", 12, 1)).astype("int64")
    amount[rng.random(rows) < 0.002] *= 100
    shown = pd.Series(amount).map("${:,}".format)
    shown[rng.random(rows) < 0.01] = "a lot"
    years = pd.Series(rng.integers(0, 52, rows).astype(str).astype(object))
    years = years.replace({"0": "Less than 1 year", "51": "More than 50 years"})
    sentences = [
        "I love it",
        "Great tools, bad docs",
        "TOO LONG",
        "don't ask me about types",
        "it's fine",
        "Python is great; R isn't",
    ]
    table = pd.DataFrame(
        {
            "ResponseId": np.arange(1, rows + 1),
            "Country": _pick(rng, [f"Land {number}" for number in range(30)], rows, list(np.arange(30, 0, -1) / 465)),
            "Age": some_missing(
                rng, _pick(rng, ["18-24 years", "25-34 years", "35-44 years", "45-54 years", "65 or older"], rows), 0.02
            ),
            "Education": some_missing(
                rng,
                _pick(rng, ["bachelor’s degree (B.A., B.S.)", "Master’s degree (M.A.)", "some college ", "None"], rows),
                0.03,
            ),
            "Employment": some_missing(
                rng, _pick(rng, ["Employed, full-time", "Employed, part-time", "Student", "Retired"], rows), 0.01
            ),
            " Remote": some_missing(rng, _pick(rng, ["Remote", "Hybrid", "In-person"], rows), 0.1),
            "YearsCode": some_missing(rng, years, 0.05),
            "Languages": some_missing(rng, several(), 0.02),
            "Wants": some_missing(rng, several(), 0.1),
            "Salary": some_missing(rng, shown, 0.25),
            "SalaryPer": per,
            "Comment": some_missing(rng, _pick(rng, sentences, rows), 0.6),
            **{
                f"Q{n}": some_missing(rng, _pick(rng, scale, rows, [0.1, 0.2, 0.2, 0.3, 0.2]), 0.08 + n / 50)
                for n in range(1, 6)
            },
        }
    )
    questions = pd.DataFrame(
        {"column": ["Country", "Age", "Employment"], "question": ["Where do you live?", "How old?", "Do you work?"]}
    )
    return {"survey.csv": table, "questions.csv": questions}


def sensors(rows: int, rng: np.random.Generator) -> Files:
    """Readings of sensors every five minutes with gaps, repeated rows and outliers; the sensors and their calibrations."""
    devices = 40 if rows >= 50_000 else 8
    names = np.array([f"s{number:02}" for number in range(devices)])
    count = max(rows // devices, 50)
    times = np.datetime64("2024-01-05T00:00:00", "us") + np.arange(count) * np.timedelta64(300_000_000, "us")
    time, sensor = np.tile(times, devices), np.repeat(np.arange(devices), count)
    hours = (time - times[0]).astype("int64") / 3.6e9
    temperature = 21 + sensor / 20 + 2.5 * np.sin(hours / 24 * 2 * np.pi - 2) + rng.normal(0, 0.3, len(time))
    temperature = np.where(
        rng.random(len(time)) < 0.0008, 85.0, np.where(rng.random(len(time)) < 0.03, np.nan, temperature)
    )
    table = pd.DataFrame(
        {
            "time": time,
            "sensor": names[sensor],
            "temperature": temperature.round(3),
            "humidity": np.where(rng.random(len(time)) < 0.02, np.nan, rng.normal(48, 14, len(time)).round(2)),
            "power": (np.maximum(0, rng.normal(120, 60, len(time)))).round(1),
        }
    )
    start = rng.integers(0, max(count - 20, 1), devices)
    lost = (np.arange(len(time)) % count - start[sensor]) // 18 == 0
    table = table[(rng.random(len(time)) > 0.01) & ~lost]
    table = pd.concat([table, table.sample(max(rows // 1000, 3), random_state=3)]).sort_values("time", kind="stable")
    known = devices - 1
    kinds = rng.choice(["office", "lab", "corridor", "server room"], known)
    wings, floors = rng.choice(["A", "B"], known), rng.integers(0, 4, known)
    rooms = [f"{wing}{floor}{room:02}" for room, (wing, floor) in enumerate(zip(wings, floors, strict=True))]
    listed = pd.DataFrame({"sensor": names[:known], "room": rooms, "kind": kinds})
    since = times[0] + rng.integers(0, 20, 120) * ((times[-1] - times[0]) // 20)
    offsets = rng.choice([-0.5, -0.2, 0.0, 0.1, 0.4], 120)
    calibration = pd.DataFrame({"sensor": names[np.arange(120) % devices], "since": since, "offset": offsets})
    calibration = calibration.drop_duplicates(["sensor", "since"])
    return {"readings.csv": table, "sensors.json": listed, "calibration.csv": calibration}


def texts_of_reviews(rows: int, rng: np.random.Generator) -> Files:
    """Reviews in lines of JSON, with markup and copies, and products with tags."""
    common = (
        "the a is and it this i to of not very good great bad love hate works fine broke cheap price quality color size"
    )
    rare = [
        f"{one}{two}{three}"
        for one in ("bo", "ka", "mi", "lu", "te", "zo")
        for two in ("ra", "ne", "vi")
        for three in ("n", "sh", "to", "x")
    ]
    words = np.array([*common.split(), *rare], dtype=object)
    chances = 1 / np.arange(1, len(words) + 1)
    length = np.minimum(rng.poisson(11, rows), 40)
    chosen = words[rng.choice(len(words), int(length.sum()), p=chances / chances.sum())]
    ends = np.cumsum(length)
    mark = _pick(rng, [".", "!", "!!", " <br> OK", ". NEVER again", ""], rows)
    text = np.array(
        [
            " ".join(chosen[end - n : end]).capitalize() + (end_mark if n else "")
            for n, end, end_mark in zip(length, ends, mark, strict=True)
        ],
        dtype=object,
    )
    again = rng.integers(0, rows, rows // 50)
    products = max(rows // 50, 20)
    ids = np.array([f"B{number:07}" for number in range(products)], dtype=object)
    product = ids[(rng.random(rows) ** 2 * products).astype("int64")]
    text[rng.integers(0, rows, len(again))] = text[again]
    voted = rng.integers(0, 30, rows)
    seconds = rng.integers(1_650_000_000, 1_713_000_000, rows)
    reviews = pd.DataFrame(
        {
            "user": texts(_joined("u", rng.integers(0, max(rows // 5, 5), rows))),
            "product": texts(product),
            "rating": rng.choice([1, 2, 3, 4, 5], rows, p=[0.1, 0.07, 0.1, 0.23, 0.5]),
            "title": texts(_pick(rng, ["works  great", "not for me", "BEST ever", "ok i guess", "two\tstars"], rows)),
            "text": some_missing(rng, texts(text), 0.004),
            "unix_time": seconds,
            "helpful": texts(_joined(rng.binomial(voted, 0.6), "/", voted)),
        }
    )
    tags = ["new", "sale", "eco", "import", "gift"]
    table = pd.DataFrame(
        {
            "asin": texts(ids),
            "brand": some_missing(
                rng, texts(_pick(rng, ["Acme", "Globex", "Initech", "Umbrella", "Hooli"], products)), 0.05
            ),
            "category": pd.Categorical(_pick(rng, ["kitchen", "garden", "toys", "books"], products)),
            "tags": [[tag for tag in tags if rng.random() < 0.3] for _ in range(products)],
        }
    ).iloc[: int(products * 0.97)]
    return {"reviews.jsonl": reviews, "products.parquet": table}


def shop(rows: int, rng: np.random.Generator) -> Files:
    """Orders of a year with their items, customers, products and returns.

    Prices and discounts are multiples of powers of two, so that sums do not depend on the order of the additions.
    """
    orders, people, goods = max(rows * 2 // 5, 10), max(rows // 10, 10), 400
    at = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 365 * 1440, orders), unit="min")
    buyer = np.where(
        rng.random(orders) < 0.6, rng.integers(0, people, orders), (rng.random(orders) ** 3 * people).astype("int64")
    )
    statuses = ["completed", "Complete", "canceled", "shipped ", " cancelled"]
    order_table = pd.DataFrame(
        {
            "order_id": np.arange(100_000, 100_000 + orders),
            "customer_id": pd.Series(buyer + 1).astype("Int64").where(rng.random(orders) > 0.02),
            "ordered_at": at.strftime("%m/%d/%Y %H:%M"),
            "status": _pick(rng, statuses, orders, [0.6, 0.2, 0.05, 0.1, 0.05]),
            "channel": some_missing(rng, _pick(rng, ["web", "app", "store"], orders), 0.03),
            "country": _pick(rng, ["de", "fr", "It", "es ", "nl"], orders),
        }
    )
    items = pd.DataFrame(
        {
            "order_id": 100_000 + np.sort(rng.integers(0, orders, rows)),
            "product_id": (rng.random(rows) ** 2 * goods * 0.98).astype("int64") + 1,
            "quantity": rng.choice([1, 1, 1, 2, 3, 5], rows),
            "discount": np.where(rng.random(rows) < 0.7, np.nan, rng.choice([0.125, 0.25, 0.5], rows)),
        }
    ).drop_duplicates(["order_id", "product_id"])
    prices = (4 * rng.gamma(2, 40, goods) + 4).round() / 4
    lines = ["Home > Lamps", "Home > Rugs", "Garden > Tools", "Garden > Plants", "Kitchen > Knives", "Toys > Games"]
    product_table = pd.DataFrame(
        {
            "product_id": np.arange(1, goods + 1),
            "title": [f"Product {number}" for number in range(1, goods + 1)],
            "category": _pick(rng, lines, goods),
            "price": [f"€{price:,.2f}" for price in prices * np.where(rng.random(goods) < 0.03, 20, 1)],
        }
    )
    signed = np.datetime64("2021-01-01") + rng.integers(0, 1000, people).astype("timedelta64[D]")
    customers = pd.DataFrame(
        {
            "customer_id": rng.permutation(people) + 1,
            "email": _joined(
                "c",
                rng.integers(0, 10**6, people),
                "@",
                _pick(rng, ["mail.example", "post.example", "x.example"], people),
            ),
            "signed_up": signed.astype("datetime64[us]"),
        }
    )
    back = items.sample(max(rows // 25, 3), random_state=5)[["order_id", "product_id"]]
    returns = back.assign(reason=_pick(rng, ["too small", "broken", "late", "other"], len(back)))
    wrong = pd.DataFrame({"order_id": [1, 2], "product_id": [1, 2], "reason": ["late", "other"]})
    named = {"order_items": items, "orders": order_table, "customers": customers, "products": product_table}
    return {**{f"{name}.csv": frame for name, frame in named.items()}, "returns.csv": pd.concat([returns, wrong])}
