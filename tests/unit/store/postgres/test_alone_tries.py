"""The batches for which the quick way to end jobs is tried."""

from __future__ import annotations

from offpath.store.postgres.settle import AloneTries


def test_the_quick_way_is_left_alone_for_a_while_after_a_try_in_vain() -> None:
    guess = AloneTries()
    assert guess.may_be_alone()
    guess.met(all_of_them=True)
    tries = [guess.may_be_alone() for _ in range(9)]
    assert tries == [False] * 8 + [True]


def test_the_quick_way_is_tried_each_time_while_it_ends_some() -> None:
    guess = AloneTries()
    for _ in range(3):
        assert guess.may_be_alone()
        guess.met(all_of_them=False)
