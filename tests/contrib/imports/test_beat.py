"""Schedules of Celery's beat become ours: of an app in code, and of a real django-celery-beat."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import celery  # type: ignore[import-untyped]
import pytest
from celery.schedules import BaseSchedule, crontab  # type: ignore[import-untyped]

import offpath
from offpath.contrib.imports import (
    celery_entries,
    django_celery_beat,
    import_schedules,
    open_tables,
)
from offpath.contrib.imports.beat import disable_in_beat
from tests.contrib.imports.conftest import app_on
from tests.contrib.urls import run_sql

if TYPE_CHECKING:
    from offpath.contrib.imports import ImportReport

MAIL = {"task": "shop.mail", "kwargs": {"to": "a"}}


async def made(app: offpath.App, schedule: dict[str, Any], *, zone: str = "UTC") -> ImportReport:
    """The report of importing the entries of a Celery app."""
    old = celery.Celery("shop", set_as_current=False)
    old.conf.update(timezone=zone, beat_schedule=schedule)
    return await import_schedules(app, celery_entries(old), source="celery")


@pytest.mark.parametrize(
    ("schedule", "cron", "every"),
    [
        (30, None, 30),
        (timedelta(minutes=5), None, 300),
        (celery.schedules.schedule(run_every=60), None, 60),
        (crontab(), "* * * * *", None),
        (
            crontab(minute="*/15", hour=[9, 17], day_of_week="mon-fri"),
            "*/15 9,17 * * mon-fri",
            None,
        ),
        (crontab(minute=0, hour=3, day_of_month="1"), "0 3 1 * *", None),
    ],
)
async def test_the_times_of_an_entry_are_the_same(
    schedule: Any, cron: str | None, every: float | None
) -> None:
    async with app_on("memory://") as app:
        entries = {"nightly": {**MAIL, "schedule": schedule}}
        report = await made(app, entries, zone="Europe/Berlin")
        assert (report.moved, report.left) == ({"nightly": 1}, [])
        timing = (await app.schedules.get("nightly")).schedule.timing
        assert (timing.expression, timing.seconds) == (cron, every)
        assert timing.zone == ("UTC" if cron is None else "Europe/Berlin")


async def test_arguments_and_options_come_along_and_a_repeat_changes_nothing() -> None:
    entry = {"task": "shop.mail", "args": ("a", 2), "schedule": 60}
    entry["options"] = {"queue": "mail", "priority": 3, "expires": 30, "time_limit": 9}
    async with app_on("memory://") as app:
        await made(app, {"one": entry})
        record = await app.schedules.get("one")
        assert (await made(app, {"one": entry})).moved == {"one": 1}
        assert await app.schedules.get("one") == record
        template = record.schedule.template
        assert (template.queue, template.priority, template.deadline_in) == ("mail", 3, 30)
        assert template.input == '{"to":"a","copies":2}'


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({**MAIL, "schedule": BaseSchedule()}, "BaseSchedule"),
        ({**MAIL, "schedule": crontab(day_of_month=1, day_of_week=1)}, "both days"),
        ({**MAIL, "schedule": 0.2}, "from 1"),
        ({**MAIL, "schedule": None}, "NoneType"),
        ({**MAIL, "schedule": 60, "options": {"exchange": "x"}}, "exchange"),
        ({"task": "shop.mail", "schedule": 60}, "to"),
        ({"task": "gone", "schedule": 60}, "--task gone="),
    ],
)
async def test_what_cannot_be_is_told_and_the_rest_is_made(entry: dict[str, Any], why: str) -> None:
    async with app_on("memory://") as app:
        report = await made(app, {"bad": entry, "good": {**MAIL, "schedule": 60}})
        assert [one.example for one in report.left] == ["bad"]
        assert why in report.left[0].reason
        assert [one.schedule.name for one in await app.schedules.list()] == ["good"]


async def test_another_schedule_of_the_name_stays_and_a_dry_run_says_so_and_writes_nothing() -> (
    None
):
    async with app_on("memory://") as app:
        mail: Any = app.tasks["shop.mail"]
        await app.schedules.create("taken", mail.job("b"), every=5)
        for dry_run in (True, False):
            old = celery.Celery("shop", set_as_current=False)
            old.conf.beat_schedule = {name: {**MAIL, "schedule": 60} for name in ("taken", "free")}
            entries = celery_entries(old)
            report = await import_schedules(app, entries, source="celery", dry_run=dry_run)
            assert (report.moved, [one.example for one in report.left]) == ({"free": 1}, ["taken"])
            listed = [one.schedule.name for one in await app.schedules.list()]
            assert listed == (["taken"] if dry_run else ["free", "taken"])


DJANGO = """
import os
from datetime import timedelta
from urllib.parse import urlsplit
import django
from django.conf import settings

URL = urlsplit(os.environ["DATABASE_URL"])
SQLITE = {"ENGINE": "django.db.backends.sqlite3", "NAME": URL.path[1:]}
POSTGRES = {
    "ENGINE": "django.db.backends.postgresql", "NAME": URL.path.lstrip("/"),
    "HOST": URL.hostname, "PORT": str(URL.port), "USER": URL.username,
}
settings.configure(
    SECRET_KEY="of the tests", USE_TZ=True, INSTALLED_APPS=["django_celery_beat"],
    DEFAULT_AUTO_FIELD="django.db.models.AutoField", CELERY_TIMEZONE="Europe/Berlin",
    DATABASES={"default": SQLITE if URL.scheme == "sqlite" else POSTGRES},
)
django.setup()

from django.core.management import call_command
from django.utils import timezone

call_command("migrate", verbosity=0)

from django_celery_beat.models import (
    ClockedSchedule, CrontabSchedule, IntervalSchedule, PeriodicTask,
)

minutes = IntervalSchedule.objects.create(every=5, period="minutes")
night = CrontabSchedule.objects.create(minute="0, 30", hour="3", timezone="Europe/Berlin")
both = CrontabSchedule.objects.create(day_of_month="1", day_of_week="1")
once = ClockedSchedule.objects.create(clocked_time=timezone.now())


def entry(name, task="shop.mail", args='["a"]', **more):
    PeriodicTask.objects.create(name=name, task=task, args=args, **more)


entry("often", interval=minutes, kwargs='{"copies": 2}', queue="mail", expire_seconds=60)
entry("nightly", crontab=night)
entry("both days", crontab=both)
entry("once", clocked=once, one_off=True)
entry("off", interval=minutes, enabled=False)
entry("ends", interval=minutes, expires=timezone.now() + timedelta(days=1))
entry("begins", interval=minutes, start_time=timezone.now() + timedelta(days=1))
entry("gone", interval=minutes, task="gone")
entry("broken", interval=minutes, args="{")
entry("celery.backend_cleanup", crontab=night, task="celery.backend_cleanup", args="[]")
"""


@pytest.mark.skipif(
    find_spec("django_celery_beat") is None, reason="django-celery-beat wants Django before 6.1"
)
async def test_periodic_tasks_of_django_become_schedules_and_are_disabled_there(url: str) -> None:
    variables = {**os.environ, "DATABASE_URL": url}
    subprocess.run([sys.executable, "-c", DJANGO], env=variables, check=True)
    enabled = "select name from django_celery_beat_periodictask where enabled order by name"
    before = run_sql(url, enabled)
    changed = "select last_update from django_celery_beat_periodictasks"
    told = run_sql(url, changed)
    left = {"begins", "both days", "broken", "ends", "gone", "off", "once"}
    async with app_on(url) as app:
        for dry_run, now in ((True, 0), (False, 2)):
            with open_tables(app) as tables:
                report = await import_schedules(
                    app,
                    django_celery_beat(tables),
                    source="django-celery-beat",
                    dry_run=dry_run,
                    imported=lambda names: disable_in_beat(tables, names),
                )
            assert report.moved == {"nightly": 1, "often": 1}
            assert {one.example for one in report.left} == left | {"celery.backend_cleanup"}
            assert len(await app.schedules.list()) == now
        often = (await app.schedules.get("often")).schedule
        nightly = (await app.schedules.get("nightly")).schedule
    assert (often.timing.seconds, often.template.queue) == (300, "mail")
    assert often.template.deadline_in == 60
    assert (nightly.timing.expression, nightly.timing.zone) == ("0,30 3 * * *", "Europe/Berlin")
    gone = {(name,) for name in ("nightly", "often")}
    assert set(before) - set(run_sql(url, enabled)) == gone
    assert run_sql(url, changed) != told  # a beat that runs reads its entries anew
