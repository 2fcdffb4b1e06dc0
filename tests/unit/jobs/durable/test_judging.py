"""The fate of a handler's own words about later: cool-downs, and groups of exceptions."""

from __future__ import annotations

from datetime import UTC, datetime

from offpath.errors import CoolDown, Snooze
from offpath.jobs.values.classification import Moment, snoozed
from offpath.jobs.values.suspension import Suspended, suspended
from offpath.model.settlement import Snoozed, Waiting

MOMENT = Moment(attempt=1, attempts=3, now=datetime(2026, 1, 1, tzinfo=UTC))
WAIT = Suspended(Waiting(target="a", event="b"))


def test_a_cool_down_closes_its_key_for_as_long_as_the_job_is_snoozed() -> None:
    outcome = snoozed(CoolDown(30), MOMENT)
    assert isinstance(outcome, Snoozed)
    assert (outcome.delay, outcome.cool_down, outcome.reason) == (30.0, 30.0, "cool_down")


def test_a_plain_snooze_closes_no_key() -> None:
    outcome = snoozed(Snooze(30), MOMENT)
    assert isinstance(outcome, Snoozed)
    assert outcome.cool_down is None


def test_a_group_is_a_suspension_only_when_there_is_nothing_else_in_it() -> None:
    nested = BaseExceptionGroup("outer", [WAIT, BaseExceptionGroup("inner", [WAIT])])
    assert suspended(nested) is WAIT
    assert suspended(BaseExceptionGroup("both", [WAIT, ValueError("no")])) is None
    assert suspended(ValueError("no")) is None
    assert not isinstance(WAIT, Exception)
