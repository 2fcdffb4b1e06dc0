"""The load of a process: the share of a core between two looks, and its memory."""

from __future__ import annotations

import sys

import pytest

from offpath.runtime.load import ProcessMeter, resident


def test_the_share_is_that_of_the_time_between_two_looks() -> None:
    now, spent = [100.0], [7.0]
    meter = ProcessMeter(lambda: now[0], lambda: spent[0], lambda: 4096)
    assert meter.share() is None
    now[0], spent[0] = 110.0, 9.5
    assert meter.share() == 0.25
    now[0], spent[0] = 110.5, 10.0  # of half a second nothing is told: it stays what it was
    assert meter.share() == 0.25
    now[0], spent[0] = 112.0, 13.5
    assert meter.share() == 2.0
    assert meter.memory() == 4096


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not tell")
def test_a_process_has_the_memory_that_it_took() -> None:
    before = resident()
    taken = bytearray(64 << 20)
    after = resident()
    assert before is not None
    assert after is not None
    assert after - before > len(taken) // 2
