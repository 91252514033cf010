"""Bottom-up passes cache a value per operator. Equal operators share it, until the operator it was computed for is freed."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from plans import FRAME, compare, scan

from craton.plan import build
from craton.plan.operators import Operator, Scan, schema
from craton.plan.size import estimate


def test_threads_that_build_and_drop_equal_plans() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    source = scan()

    def work(_: int) -> None:
        for _ in range(500):
            op: Operator = Scan(source.source, source.columns)
            for bound in range(3):
                op = build.filter(op, compare(op, "k", "gt", bound))
                assert list(schema(op)) == list(FRAME.columns)
                assert estimate(op).rows >= 0

    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4), timeout=60))
    finally:
        sys.setswitchinterval(interval)
