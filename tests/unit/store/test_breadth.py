"""The number of lanes that a look reads, by how the looks before it went."""

from __future__ import annotations

from offpath.store.breadth import FEWEST, MOST, Breadth


def test_short_looks_widen_the_next_one_and_full_ones_narrow_it() -> None:
    breadth = Breadth()
    seen = [breadth.lanes]
    for short in (True, True, True, False, False, False):
        breadth.learn(short=short)
        seen.append(breadth.lanes)
    assert seen == [FEWEST, 32, MOST, MOST, 32, FEWEST, FEWEST]
