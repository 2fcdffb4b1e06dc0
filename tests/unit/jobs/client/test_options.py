"""Options: checked before anything is written, merged level by level (spec A.5)."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from offpath import App
from offpath.errors import InvalidArgument
from offpath.model.job import JobState, UniqueClaim, UniquePolicy
from offpath.model.limit import LimitSpec
from offpath.model.option_checks import checked, checked_queue_time
from offpath.model.options import (
    OptionLevel,
    Options,
    Resolved,
    RunOptions,
    Unique,
    claim_of,
    decode_run,
    encode_run,
    resolve,
    resolve_keys,
)
from offpath.model.retry import Backoff, RetryOptions, RetryPolicy

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def resolved(*levels: Options) -> Resolved:
    return resolve([checked(level) for level in levels])


def run(*levels: Options) -> RunOptions:
    return decode_run(resolved(*levels).run)


def test_defaults_store_nothing() -> None:
    assert resolved() == Resolved()
    assert resolved().run == "{}"
    assert decode_run("{}") == RunOptions()


def test_each_field_comes_from_the_highest_level_that_says_it() -> None:
    found = resolved(
        Options(priority=0), Options(priority=5, queue="mail"), Options(queue="low", tags=["a"])
    )
    assert (found.priority, found.queue, found.tags) == (0, "mail", ("a",))


def test_retry_merges_inside() -> None:
    assert run(
        Options(retry=RetryOptions(attempts=9)), Options(retry=RetryOptions(base=4, attempts=2))
    ).retry == RetryPolicy(attempts=9, base=4.0)


@pytest.mark.parametrize(
    "keys",
    [
        OptionLevel(),
        OptionLevel(unique=False, limit=False),
        OptionLevel(unique=UniqueClaim(key="mine"), limit=LimitSpec(key="mine"), fair_key="mine"),
    ],
)
def test_keys_over_what_is_resolved_are_what_all_levels_give(keys: OptionLevel) -> None:
    below = OptionLevel(
        unique=UniqueClaim(key="below"),
        limit=LimitSpec(key="below", max_running=2),
        fair_key="below",
        priority=3,
        timeout=4.0,
    )
    assert resolve_keys(keys, resolve([below])) == resolve([keys, below])


def test_times_are_seconds_and_utc() -> None:
    east = timezone(timedelta(hours=2))
    found = resolved(
        Options(delay=timedelta(minutes=1), run_at=datetime(2026, 5, 1, 14, tzinfo=east))
    )
    assert found.delay == 60.0
    assert found.run_at == NOON
    assert found.run_at.tzinfo is UTC


def test_a_relative_deadline_counts_from_enqueue() -> None:
    assert resolved(Options(deadline=timedelta(hours=1))).deadline_in == 3600.0
    assert resolved(Options(deadline=5)).deadline_in == 5.0


def test_an_absolute_deadline_on_any_level_beats_a_relative_one() -> None:
    found = resolved(Options(deadline=timedelta(hours=1)), Options(deadline=NOON))
    assert (found.deadline, found.deadline_in) == (NOON, None)


def test_infinity_lifts_a_limit_of_a_lower_level() -> None:
    lower = Options(timeout=5, deadline=60, retention=7)
    lifted = Options(timeout=math.inf, deadline=math.inf, retention=math.inf)
    assert run(lifted, lower) == RunOptions(keep_forever=True)
    assert resolved(lifted, lower).deadline_in is None


def test_retention_is_about_success() -> None:
    assert run(Options(retention=60)).keep_succeeded(999.0) == 60.0
    assert run(Options(retention=math.inf)).keep_succeeded(999.0) is None
    assert run().keep_succeeded(999.0) == 999.0
    assert run(Options(retention=0)).keep_succeeded(999.0) == 0.0


def test_unique_is_put_inside_the_tasks_name_space() -> None:
    asked = resolved(Options(unique="user-7")).unique
    assert asked is not None
    claim = claim_of("mail", asked)
    assert claim.key == "mail:user-7"
    assert claim.policy is UniquePolicy.ATTACH
    assert claim.states == (JobState.BLOCKED, JobState.QUEUED, JobState.RUNNING)


def test_unique_says_all_it_can() -> None:
    unique = Unique(
        key="k", states=["succeeded", "queued"], period=timedelta(days=1), policy="refuse"
    )
    claim = resolved(Options(unique=unique)).unique
    assert claim is not None
    assert claim.states == (JobState.QUEUED, JobState.SUCCEEDED)
    assert (claim.period, claim.policy) == (86_400.0, UniquePolicy.REFUSE)


def test_false_lifts_a_unique_key() -> None:
    assert resolved(Options(unique=False), Options(unique="k")).unique is None


def test_run_options_survive_storage() -> None:
    options = RunOptions(retry=RetryPolicy(attempts=9), timeout=3.5, keep=60.0)
    assert decode_run(encode_run(options)) == options


def test_fields_of_later_versions_are_ignored() -> None:
    assert decode_run('{"timeout": 5, "invented_later": [1]}') == RunOptions(timeout=5.0)


@pytest.mark.parametrize(
    "bad",
    [
        Options(delay=-1),
        Options(delay=math.nan),
        Options(delay=math.inf),
        Options(delay="5"),  # type: ignore[arg-type]
        Options(delay=True),
        Options(delay=timedelta(seconds=-1)),
        Options(run_at=datetime(2026, 1, 1)),  # noqa: DTZ001 - naive on purpose
        Options(run_at="tomorrow"),  # type: ignore[arg-type]
        Options(deadline=datetime(2026, 1, 1)),  # noqa: DTZ001 - naive on purpose
        Options(deadline=0),
        Options(deadline=-5),
        Options(timeout=0),
        Options(timeout=math.nan),
        Options(retention=-1),
        Options(priority=2**31),
        Options(priority=1.5),  # type: ignore[arg-type]
        Options(priority=True),
        Options(queue=""),
        Options(queue="a\0b"),
        Options(queue="a\nb"),
        Options(queue="x" * 201),
        Options(queue="\ud800"),
        Options(queue=5),  # type: ignore[arg-type]
        Options(tags="one"),
        Options(tags=["a\0"]),
        Options(tags=["\ud800"]),
        Options(tags=[""]),
        Options(tags=[f"t{n}" for n in range(51)]),
        Options(unique=""),
        Options(unique="k\0"),
        Options(unique="k" * 501),
        Options(unique=Unique(key="k", states=[])),
        Options(unique=Unique(key="k", states=["succeeded"])),
        Options(unique=Unique(key="k", states="queued")),
        Options(unique=Unique(key="k", states=["asleep"])),
        Options(unique=Unique(key="k", policy="maybe")),  # type: ignore[arg-type]
        Options(unique=Unique(key="k", period=-1)),
        Options(unique=7),  # type: ignore[arg-type]
        Options(retry=0),
    ],
)
def test_nonsense_is_refused(bad: Options) -> None:
    with pytest.raises(InvalidArgument):
        checked(bad)


def test_a_custom_backoff_cannot_go_with_a_job() -> None:
    with pytest.raises(InvalidArgument, match="give it to the task"):
        checked_queue_time(Options(retry=Backoff.custom(lambda _: 1.0)))


def test_a_text_in_errors_never_breaks_the_terminal() -> None:
    with pytest.raises(InvalidArgument) as caught:
        checked(Options(queue="a\x1b[31m\n"))
    assert str(caught.value).isprintable()


def test_tags_lose_repeats_and_keep_their_order() -> None:
    assert checked(Options(tags=["b", "a", "b"])) == OptionLevel(tags=("b", "a"))


def test_a_setting_that_no_app_has_is_told_with_one_like_it() -> None:
    misspelt: dict[str, Any] = {"auto_migrate": True}
    with pytest.raises(InvalidArgument, match=r"no setting 'auto_migrate'; did you mean '"):
        App(**misspelt)
    unheard: dict[str, Any] = {"xyz": True}
    with pytest.raises(InvalidArgument, match=r"'xyz'; there are (?!.*defaults).*, clock, codec"):
        App(**unheard)
