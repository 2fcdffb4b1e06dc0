"""Tasks that are written for Celery, once: run by Celery with Redis, and by the shim.

Which one is said by the environment. ``forty_calls`` is their caller.
"""

# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202 - it is code as Celery's users write it
# mypy: ignore-errors

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

if os.environ["FORTY"] == "celery":
    from celery import Celery, shared_task
    from celery.signals import task_failure, task_postrun, task_prerun, task_retry, task_success

    app = Celery(
        "tests.contrib.celery.forty",
        broker=os.environ["FORTY_URL"],
        backend=os.environ["FORTY_URL"],
    )
    app.conf.update(
        task_track_started=True,
        worker_prefetch_multiplier=1,
        broker_connection_retry_on_startup=True,
        broker_transport_options={"polling_interval": 0.05},
    )
else:
    from offpath.contrib.celery import (
        Celery,
        shared_task,
    )  # fmt: skip
    from offpath.contrib.celery.signals import (
        task_failure,
        task_postrun,
        task_prerun,
        task_retry,
        task_success,
    )  # fmt: skip

    app = Celery("tests.contrib.celery.forty", offpath=os.environ["FORTY_URL"])

JOURNAL = Path(os.environ["FORTY_JOURNAL"])
WAIT = 60


class AppError(Exception):
    """An error of the application's own."""


def note(text):
    with JOURNAL.open("a") as file:
        file.write(f"{text}\n")


def noted(key, count=1):
    """The lines of the journal about a key, once there are so many."""
    end = time.monotonic() + WAIT
    while True:
        lines = JOURNAL.read_text().splitlines() if JOURNAL.exists() else []
        found = [one.removeprefix(f"{key} ") for one in lines if one.startswith(f"{key} ")]
        if len(found) >= count or time.monotonic() > end:
            return found
        time.sleep(0.05)


# -- forty tasks -----------------------------------------------------------------------------------


@app.task
def add(a, b):
    return a + b


@app.task
def mul(a, b):
    return a * b


@app.task
def tsum(numbers):
    return sum(numbers)


@app.task
def echo(value):
    return value


@app.task
def fail(text):
    raise ValueError(text)


@app.task
def own_error():
    raise AppError("of my own")


@app.task
def nothing():
    return None


@app.task
def default(a, b=5):
    return [a, b]


@app.task
def keyword(*, a):
    return a


@app.task
def anything(*args, **kwargs):
    return [list(args), kwargs]


@app.task(name="special.name")
def renamed():
    return "special"


@shared_task
def shared(a):
    return f"shared {a}"


@app.task(bind=True)
def own_id(self):
    return self.request.id


@app.task(bind=True)
def own_name(self):
    return [self.name.rpartition(".")[2], self.max_retries, self.default_retry_delay]


@app.task(bind=True)
def third_time(self):
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    return self.request.retries


@app.task(bind=True, max_retries=2)
def retried_with_error(self, key):
    note(f"{key} run {self.request.retries}")
    try:
        raise ValueError("the last word")
    except ValueError as error:
        self.retry(exc=error, countdown=0)


@app.task(bind=True, max_retries=1)
def retried_without_error(self):
    self.retry(countdown=0)


@app.task(bind=True)
def retried_by_number(self, key):
    note(f"{key} run {self.request.retries}")
    self.retry(exc=AppError("enough"), countdown=0, max_retries=1)


@app.task(bind=True, default_retry_delay=0, max_retries=2)
def retried_later(self, key):
    note(f"{key} {time.time()}")
    if self.request.retries:
        return "later"
    raise self.retry(eta=datetime.now(UTC) + timedelta(seconds=1))


@app.task(bind=True, autoretry_for=(OSError,), default_retry_delay=0)
def auto(self):
    if self.request.retries < 2:
        raise OSError("not yet")
    return self.request.retries


@app.task(bind=True, autoretry_for=(OSError,), retry_kwargs={"max_retries": 2, "countdown": 0})
def auto_exhausted(self, key):
    note(f"{key} run {self.request.retries}")
    raise OSError("never")


@app.task(autoretry_for=(OSError,), default_retry_delay=0)
def auto_another(key):
    note(f"{key} run")
    raise KeyError("at once")


@app.task(autoretry_for=(OSError,), dont_autoretry_for=(FileNotFoundError,), default_retry_delay=0)
def auto_excepted(key):
    note(f"{key} run")
    raise FileNotFoundError("at once")


@app.task(
    bind=True, autoretry_for=(OSError,), retry_backoff=True, retry_backoff_max=1, max_retries=1
)
def auto_backoff(self):
    if not self.request.retries:
        raise OSError("busy")
    return "after a backoff"


@app.task(bind=True)
def headers(self):
    return (self.request.headers or {}).get("tenant")


@app.task(bind=True)
def family(self):
    return [self.request.root_id, self.request.parent_id]


@app.task(bind=True)
def parent(self):
    return [self.request.id, family.delay().id]


@app.task
def waits_inside():
    try:
        add.delay(1, 1).get(timeout=1)
    except RuntimeError as error:
        return type(error).__name__
    return "waited"


@app.task
def journal(key, text):
    note(f"{key} {text}")
    return text


@app.task
def on_link(result, key):
    note(f"{key} linked {result}")


@app.task
def on_error_old(task_id):
    note(f"{task_id} failed")


@app.task
def on_error_new(request, error, traceback):
    note(f"{request.id} {type(error).__name__} {error}")


@app.task(acks_late=True, reject_on_worker_lost=True, ignore_result=False, track_started=True)
def settings():
    return "settings"


@app.task(rate_limit="100/s")
def limited():
    return "limited"


@app.task(time_limit=1)
def too_long():
    time.sleep(2.5)


@app.task(queue="mail")
def mailed():
    return "mailed"


@app.task(priority=3)
def important():
    return "important"


@app.task
def slow(seconds):
    time.sleep(seconds)
    return seconds


@app.task
def watched(key):
    return key


@app.task(bind=True, max_retries=1)
def watched_failure(self, key):
    raise self.retry(exc=ValueError(key), countdown=0)


def _told(kind):
    def told(sender=None, **given):
        if sender is not None and sender.name.endswith(("watched", "watched_failure")):
            note(f"signals-{sender.name.rpartition('.')[2]} {kind}")

    return told


for kind, signal in {
    "prerun": task_prerun, "postrun": task_postrun, "success": task_success,
    "failure": task_failure, "retry": task_retry,
}.items():  # fmt: skip
    signal.connect(_told(kind), weak=False)
