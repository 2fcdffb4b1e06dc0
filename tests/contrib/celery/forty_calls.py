"""What a caller of the forty tasks does. Run as a program it prints what each scenario gave."""

# ruff: noqa: ANN001, ANN201, F403, F405 - as Celery's users write it
# mypy: ignore-errors

from __future__ import annotations

import json
import os
import sys
import time
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import UUID, uuid4

from tests.contrib.celery.forty import *

if os.environ["FORTY"] == "celery":
    from celery import chain, chord, group, signature
    from celery.exceptions import TaskRevokedError, TimeoutError
    from celery.result import AsyncResult
else:
    from offpath.contrib.celery import AsyncResult, chain, chord, group, signature
    from offpath.contrib.celery.exceptions import TaskRevokedError, TimeoutError

# -- what a caller does ----------------------------------------------------------------------------

SCENARIOS = {}


def scenario(function):
    SCENARIOS[function.__name__] = function
    return function


def key():
    return uuid4().hex


def outcome(result):
    """What a caller gets: the value, or the class and text of the exception."""
    try:
        return result.get(timeout=WAIT)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@scenario
def delays():
    return outcome(add.delay(2, 3))


@scenario
def arguments():
    calls = [
        default.delay(1), default.delay(1, b=2), keyword.delay(a=3), nothing.delay(),
        anything.delay(1, 2, x=3), echo.apply_async(kwargs={"value": {"a": [1, None]}}),
    ]  # fmt: skip
    return [outcome(one) for one in calls]


@scenario
def typed_values():
    values = [
        datetime(2026, 1, 2, 3, tzinfo=UTC), date(2026, 1, 2), Decimal("1.50"),
        UUID(int=7), b"raw", (1, (2,)),
    ]  # fmt: skip
    return [repr(outcome(echo.delay(one))) for one in values]


@scenario
def wrong_arguments():
    try:
        add.delay(1)
    except TypeError:
        return "TypeError"
    return "sent"


@scenario
def called_directly():
    return [add(1, 2), own_name(), shared(3), own_id()]


@scenario
def names():
    return [renamed.name, add.name.rpartition(".")[2], outcome(renamed.delay())]


@scenario
def of_a_shared_task():
    return outcome(shared.delay(1))


@scenario
def by_name():
    sent = app.send_task("special.name")
    return [outcome(sent), outcome(signature("special.name").delay())]


@scenario
def an_id():
    chosen = str(uuid4())
    result = own_id.apply_async(task_id=chosen)
    return [outcome(result) == chosen, result.id == chosen, AsyncResult(chosen).get() == chosen]


@scenario
def states():
    done, failed = add.delay(1, 1), fail.delay("no")
    outcome(done), outcome(failed)
    return [
        [done.state, done.ready(), done.successful(), done.failed(), done.result],
        [failed.state, failed.ready(), failed.successful(), failed.failed(), str(failed.result)],
        AsyncResult(str(uuid4())).state,
        "ValueError: no" in failed.traceback,
    ]


@scenario
def while_it_runs():
    result = slow.delay(1.5)
    end = time.monotonic() + WAIT
    while result.state == "PENDING" and time.monotonic() < end:
        time.sleep(0.05)
    return [result.state, result.ready(), outcome(result), result.state]


@scenario
def too_short_a_wait():
    result = slow.delay(4)
    try:
        result.get(timeout=0.1)
    except TimeoutError:
        return ["TimeoutError", outcome(result)]


@scenario
def errors():
    return [outcome(fail.delay("no")), outcome(own_error.delay())]


@scenario
def an_error_that_is_not_raised():
    return repr(fail.delay("no").get(timeout=WAIT, propagate=False))


@scenario
def retries():
    return outcome(third_time.delay())


@scenario
def retries_with_an_error():
    mine = key()
    return [outcome(retried_with_error.delay(mine)), noted(mine, 3)]


@scenario
def retries_without_an_error():
    return outcome(retried_without_error.delay()).partition(":")[0]


@scenario
def retries_by_their_number():
    mine = key()
    return [outcome(retried_by_number.delay(mine)), noted(mine, 2)]


@scenario
def a_retry_at_a_time():
    mine = key()
    value = outcome(retried_later.delay(mine))
    first, second = map(float, noted(mine, 2))
    return [value, second - first >= 0.9]


@scenario
def automatic_retries():
    mine, another, excepted = key(), key(), key()
    return [
        outcome(auto.delay()),
        outcome(auto_exhausted.delay(mine)), noted(mine, 3),
        outcome(auto_another.delay(another)), noted(another),
        outcome(auto_excepted.delay(excepted)), noted(excepted),
        outcome(auto_backoff.delay()),
    ]  # fmt: skip


@scenario
def a_retry_shows_its_state():
    result = retried_later.delay(key())
    seen = set()
    while not result.ready():
        seen.add(result.state)
        time.sleep(0.02)
    return ["RETRY" in seen, result.state]


@scenario
def a_countdown():
    begun = time.monotonic()
    result = add.apply_async((1, 1), countdown=2)
    early = result.ready()
    return [early, outcome(result), time.monotonic() - begun >= 1.9]


@scenario
def an_eta():
    begun = time.monotonic()
    result = add.apply_async((1, 1), eta=datetime.now(UTC) + timedelta(seconds=1))
    return [outcome(result), time.monotonic() - begun >= 0.9]


@scenario
def expired():
    mine = key()
    result = journal.apply_async((mine, "ran"), countdown=1.5, expires=0.5)
    kept = journal.apply_async((mine, "in time"), expires=60)
    return [outcome(result).partition(":")[0], result.state, outcome(kept), noted(mine)]


@scenario
def queues_and_options():
    return [outcome(one) for one in (
        mailed.delay(), important.delay(), settings.delay(), limited.delay(),
        add.apply_async((1, 1), queue="mail"),
        add.apply_async((1, 1), priority=5, serializer="json"),
    )]  # fmt: skip


@scenario
def headers_of_a_call():
    return outcome(headers.apply_async(headers={"tenant": "acme"}))


@scenario
def a_family():
    own, child = outcome(parent.delay())
    return [outcome(AsyncResult(child)) == [own, own], outcome(family.delay())[1]]


@scenario
def waiting_in_a_task():
    return outcome(waits_inside.delay())


@scenario
def a_time_limit():
    result = too_long.delay()
    return [outcome(result).partition(":")[0], result.state]


@scenario
def cancelled():
    result = add.apply_async((1, 1), countdown=1)
    result.revoke()
    try:
        result.get(timeout=WAIT)
    except TaskRevokedError:
        return result.state


@scenario
def linked():
    mine = key()
    add.apply_async((1, 2), link=on_link.s(mine))
    first = noted(mine)
    add.apply_async((1, 2), link=[journal.si(mine, "one"), on_link.s(mine)])
    return [first, sorted(noted(mine, 3))]


@scenario
def not_linked_to_a_failure():
    mine = key()
    outcome(fail.apply_async(("no",), link=on_link.s(mine)))
    time.sleep(0.3)
    return noted(mine, 0)


@scenario
def errbacks():
    old, new = (
        fail.apply_async(("no",), link_error=each) for each in (on_error_old.s(), on_error_new.s())
    )
    return [noted(old.id), noted(new.id)]


@scenario
def no_errback_of_a_success():
    result = add.apply_async((1, 1), link_error=on_error_old.s())
    outcome(result)
    time.sleep(0.3)
    return noted(result.id, 0)


@scenario
def chains():
    result = chain(add.s(1, 2), mul.s(10), add.s(b=1))()
    return [
        outcome(result), outcome(result.parent), outcome(result.parent.parent),
        outcome((add.s(1, 2) | mul.s(3) | mul.si(2, 2)).delay()),
        outcome(chain(add.s(2), mul.s(3)).delay(5)),
    ]  # fmt: skip


@scenario
def a_chain_that_breaks():
    mine = key()
    result = chain(add.s(1, 2), fail.s(), journal.s(mine)).apply_async()
    failed = outcome(result.parent)
    time.sleep(0.3)
    return [failed, noted(mine, 0)]


@scenario
def groups():
    result = group(add.s(n, n) for n in range(5))()
    values = outcome(result)
    return [values, len(result), result.successful(), result.completed_count(), result[4].get()]


@scenario
def a_group_with_a_failure():
    result = group([add.s(1, 1), fail.s("no")])()
    values = result.get(timeout=WAIT, propagate=False)
    return [values[0], repr(values[1]), result.failed(), result.successful()]


@scenario
def chords():
    return [
        outcome(chord([add.s(n, n) for n in range(10)])(tsum.s())),
        outcome(chord([add.s(n, 0) for n in (3, 1, 2)], echo.s()).apply_async()),
        outcome((group(add.s(1, 1), add.s(2, 2)) | tsum.s()).delay()),
        outcome((group(add.s(1, 1), add.s(2, 2)) | tsum.s() | mul.s(10)).delay()),
        outcome(chord([chain(add.s(1, 1), mul.s(4)), mul.s(3, 3)])(tsum.s())),
    ]


@scenario
def a_chord_with_a_failure():
    mine = key()
    body = chord([add.s(1, 1), fail.s("no")])(journal.si(mine, "body"))
    end = time.monotonic() + WAIT
    while not body.ready() and time.monotonic() < end:
        time.sleep(0.05)
    return [body.state, noted(mine, 0)]


@scenario
def a_group_after_a_task():
    return outcome(chain(add.s(1, 2), group(mul.s(2), mul.s(3))).apply_async())


@scenario
def maps():
    return [
        outcome(add.starmap([(1, 1), (2, 2)]).delay()),
        outcome(echo.map([1, 2]).delay()),
        outcome(add.chunks(zip(range(5), range(5), strict=True), 2).group()()),
    ]


@scenario
def signatures():
    one = add.s(2)
    return [one(3), outcome(one.delay(1)), outcome(add.signature((1, 1), countdown=0).delay()),
            outcome(add.s(1, 1).set(queue="mail").apply_async())]  # fmt: skip


@scenario
def signals():
    mine = key()
    outcome(watched.delay(mine)), outcome(watched_failure.delay(mine))
    return [noted("signals-watched", 3), sorted(noted("signals-watched_failure", 6))]


@scenario
def forgotten():
    result = add.delay(1, 1)
    outcome(result)
    result.forget()
    return AsyncResult(result.id).state


if __name__ == "__main__":
    chosen = sys.argv[1:] or list(SCENARIOS)
    found = {}
    for name in chosen:
        try:
            found[name] = SCENARIOS[name]()
        except Exception as error:
            found[name] = f"raised {type(error).__name__}: {error}"
    print(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)  # threads of either library have nothing left to do
