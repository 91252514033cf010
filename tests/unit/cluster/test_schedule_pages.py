"""Outputs of tasks as pages of a store."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest

from craton.schedule.pages import OutputLost, OutputPart, PageInput, PageSink, identify
from craton.store import Store


def test_a_restarted_store_does_not_return_pages_for_locations_of_the_earlier_one() -> None:
    with Store.open(1 << 24) as first, Store.open(1 << 24) as second:
        places = []
        for store in (first, second):
            identify(store)
            sink = PageSink(store, 1, 1)
            sink.write(0, pa.table({"n": [len(places)]}))
            places.append(sink.finish())
        assert places[0].number == places[1].number
        assert PageInput(second, [OutputPart(7, places[1], 0)]).table()["n"].to_pylist() == [1]
        with pytest.raises(OutputLost):
            PageInput(second, [OutputPart(7, places[0], 0)]).table()


def test_row_ranges_of_parts() -> None:
    with Store.open(1 << 24) as store:
        sink = PageSink(store, 3)
        for part, values in ((0, [1, 2, 3]), (2, [4]), (0, [5, 6])):
            sink.write(part, pa.table({"n": values}))
        place = sink.finish()
        assert [size.rows for size in place.sizes()] == [5, 0, 1]

        def read(*parts: int, rows: tuple[int, int] | None = None) -> list[int]:
            return PageInput(store, [OutputPart(1, place, part) for part in parts], rows).table()["n"].to_pylist()  # type: ignore[no-any-return]

        assert read(0) == [1, 2, 3, 5, 6]
        assert read(2, 0, rows=(0, 3)) == [4, 1, 2]
        assert read(0, 2, rows=(4, 2)) == [6, 4]
        with pytest.raises(IndexError, match="part 3"):
            read(3)


def test_few_rows_of_a_page_do_not_pin_it() -> None:
    with Store.open(1 << 24) as store:
        sink = PageSink(store, 8)
        for part in range(8):
            sink.write(part, pa.table({"n": range(part * 1000, part * 1000 + 1000), "s": [str(part)] * 1000}))
        place = sink.finish()
        assert len({page for slices in place.parts for page, *_ in slices}) == 1
        few = PageInput(store, [OutputPart(1, place, 3)]).table()
        assert few.equals(pa.table({"n": range(3000, 4000), "s": ["3"] * 1000}))
        assert not store.describe()["pins"].any()
        most = PageInput(store, [OutputPart(1, place, part) for part in range(8)]).table()
        assert most["n"].to_pylist() == list(range(8000))
        assert store.describe()["pins"].any()  # over the page's memory


@pytest.mark.parametrize("nested", ["plain", "binary", "list", "struct", "array", "category"])
def test_few_rows_of_text_do_not_pin_their_page(nested: str) -> None:
    """String views refer to all text of their page, and concatenating chunks does not copy it."""
    texts = [None if i % 7 == 0 else f"a text of more than twelve letters, number {i}" for i in range(8000)]
    column = {
        "plain": lambda: pl.Series("s", texts),
        "binary": lambda: pl.Series("s", [None if text is None else text.encode() for text in texts]),
        "list": lambda: pl.Series("s", [[text, None] for text in texts]),
        "struct": lambda: pl.Series("s", [{"in": text, "n": i} for i, text in enumerate(texts)]),
        "array": lambda: pl.Series("s", [[text] for text in texts], dtype=pl.Array(pl.String(), 1)),
        "category": lambda: pl.Series(
            "s", [None if text is None else text[-1:] * 20 for text in texts], dtype=pl.Categorical()
        ),
    }[nested]()
    frame = pl.DataFrame({"n": range(8000), "s": column})
    with Store.open(1 << 24) as store:
        sink = PageSink(store, 8, small=(1 << 30, 1 << 30))
        for part in range(8):
            sink.write(part, frame.slice(part * 1000, 1000).to_arrow(compat_level=pl.CompatLevel.newest()))
        place = sink.finish()
        assert len({page for slices in place.parts for page, *_ in slices}) == 1
        few = PageInput(store, [OutputPart(1, place, 3)]).table()
        assert pl.DataFrame(few).equals(frame.slice(3000, 1000))
        assert few.schema == frame.to_arrow(compat_level=pl.CompatLevel.newest()).schema
        assert not store.describe()["pins"].any()
        most = PageInput(store, [OutputPart(1, place, part) for part in range(8)]).table()
        assert pl.DataFrame(most).equals(frame)
        assert store.describe()["pins"].any()  # over the page's memory
