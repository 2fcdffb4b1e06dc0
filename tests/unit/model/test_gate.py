"""The meaning of a gate's counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpath.errors import InvalidArgument
from offpath.model.gate import Counting, GateState, When, verdict

SUCCEEDED, SETTLED = Counting.SUCCEEDED, Counting.SETTLED
OPEN, FIRED, HOPELESS = GateState.OPEN, GateState.FIRED, GateState.UNSATISFIABLE


@pytest.mark.parametrize(
    ("need", "of", "total", "succeeded", "failed", "state"),
    [
        (3, SUCCEEDED, 3, 0, 0, OPEN),
        (3, SUCCEEDED, 3, 2, 0, OPEN),
        (3, SUCCEEDED, 3, 3, 0, FIRED),
        (3, SUCCEEDED, 3, 0, 1, HOPELESS),
        (1, SUCCEEDED, 3, 0, 2, OPEN),
        (1, SUCCEEDED, 3, 0, 3, HOPELESS),
        (1, SUCCEEDED, 3, 1, 2, FIRED),
        (2, SUCCEEDED, 3, 1, 1, OPEN),
        (2, SUCCEEDED, 3, 1, 2, HOPELESS),
        (3, SETTLED, 3, 1, 1, OPEN),
        (3, SETTLED, 3, 0, 3, FIRED),
        (2, SETTLED, 3, 1, 1, FIRED),
        (0, SUCCEEDED, 0, 0, 0, FIRED),
        (0, SUCCEEDED, 2, 0, 2, FIRED),
    ],
)
def test_verdicts(
    need: int, of: Counting, total: int, succeeded: int, failed: int, state: GateState
) -> None:
    found = verdict(need=need, of=of, total=total, succeeded=succeeded, failed=failed)
    assert found is state


@given(
    need=st.integers(0, 6),
    of=st.sampled_from(list(Counting)),
    ends=st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_every_gate_is_decided_once_and_for_all(need: int, of: Counting, ends: list[bool]) -> None:
    """However its jobs end: what was decided stays so, and at the last end nothing is open."""
    states = [
        verdict(
            need=need,
            of=of,
            total=len(ends),
            succeeded=sum(ends[:n]),
            failed=n - sum(ends[:n]),
        )
        for n in range(len(ends) + 1)
    ]
    decided = [state for state in states if state is not OPEN]
    assert states[-1] is not OPEN
    assert len(set(decided)) == 1
    assert states == [OPEN] * (len(states) - len(decided)) + decided


def test_all_is_what_is_needed_unless_told_otherwise() -> None:
    assert When().needed(4) == 4
    assert When(need=2).needed(4) == 2
    assert When().needed(0) == 0


@pytest.mark.parametrize("need", [-1, 5])
def test_a_condition_that_can_never_hold_is_refused(need: int) -> None:
    with pytest.raises(InvalidArgument, match="4 jobs"):
        When(need=need).needed(4)
