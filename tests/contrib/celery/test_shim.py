"""What the shim refuses, and by which word; what it keeps of a job; its beat and its settings."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import offpath
from offpath.contrib.celery import (
    Celery,
    NotInShim,
    catalogue,
    chain,
    chord,
    crontab,
    exceptions,
    group,
    schedules,
    settings_catalogue,
    shared_task,
    signals,
)  # fmt: skip
from offpath.contrib.celery.catalogue import Meaning
from offpath.contrib.celery.results import AsyncResult
from offpath.errors import InvalidInput, UnknownTask
from offpath.testing import drain

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def absent(words: catalogue.Words) -> list[str]:
    return [name for name, found in words.items() if found.meaning is Meaning.ABSENT]


def refused(call: Callable[[], object], word: str) -> None:
    """It raises the typed error, which names the word here."""
    with pytest.raises(NotInShim) as caught:
        call()
    assert caught.value.code == "not_in_shim"
    assert word in str(caught.value)


@pytest.mark.parametrize("name", [*absent(catalogue.TASK_OPTIONS), "wings"])
def test_an_option_of_a_task_is_refused_where_it_is_defined(shop: Celery, name: str) -> None:
    known = catalogue.TASK_OPTIONS.get(name)
    refused(lambda: shop.task(lambda: None, **{name: "x"}), known.text if known else "wings")
    refused(lambda: shared_task(**{name: "x"})(lambda: None), name)


@pytest.mark.parametrize("name", [*absent(catalogue.CALL_OPTIONS), "wings"])
def test_an_option_of_a_call_is_refused_and_nothing_is_written(shop: Celery, name: str) -> None:
    add = shop.task(_add)
    known = catalogue.CALL_OPTIONS.get(name)
    for call in (
        lambda: add.apply_async((1, 2), None, **{name: "x"}),
        lambda: add.s(1, 2).set(**{name: "x"}),
        lambda: group(add.s(1, 2)).apply_async((), None, **{name: "x"}),
        lambda: shop.send_task(add.name, (1, 2), None, **{name: "x"}),
    ):
        refused(call, known.text if known else "wings")
    assert shop.offpath.blocking.jobs.count() == 0


@pytest.mark.parametrize("name", [*absent(settings_catalogue.SETTINGS), "task_wings"])
def test_a_setting_is_refused_however_it_is_set(shop: Celery, name: str) -> None:
    known = settings_catalogue.SETTINGS.get(name)
    source = SimpleNamespace(**{f"CELERY_{name.upper()}": "x"})
    for call in (
        lambda: setattr(shop.conf, name, "x"),
        lambda: shop.conf.update({name: "x"}),
        lambda: shop.config_from_object(source, namespace="CELERY"),
    ):
        word = "JSON" if name.endswith("serializer") else (known.text if known else "wings")
        refused(call, word)


@pytest.mark.parametrize("name", absent(catalogue.APP_METHODS))
def test_a_part_of_an_app_is_refused(shop: Celery, name: str) -> None:
    refused(lambda: getattr(shop, name), catalogue.APP_METHODS[name].text)


@pytest.mark.parametrize("name", absent(catalogue.APP_OPTIONS))
def test_an_argument_of_an_app_is_refused(name: str) -> None:
    refused(lambda: Celery("x", offpath="memory://", **{name: "x"}), "")


@pytest.mark.parametrize("name", absent(catalogue.TASK_METHODS))
def test_a_method_of_a_task_is_refused(shop: Celery, name: str) -> None:
    refused(lambda: getattr(shop.task(_add), name), catalogue.TASK_METHODS[name].text)


@pytest.mark.parametrize("name", absent(catalogue.RESULT_METHODS))
def test_a_method_of_a_result_is_refused(shop: Celery, name: str) -> None:
    result = AsyncResult(shop.offpath.new_id(), shop)
    refused(lambda: getattr(result, name), catalogue.RESULT_METHODS[name].text)


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (signals, absent(catalogue.SIGNALS)),
        (exceptions, ["Ignore", "Reject"]),
        (schedules, ["solar"]),
    ],
)
def test_a_name_that_is_not_here_is_an_import_error_with_the_word(
    module: Any, names: list[str]
) -> None:
    for name in names:
        with pytest.raises(ImportError, match=": "):
            getattr(module, name)
    assert not hasattr(module, "no_such_name")


def _add(a: int, b: int) -> int:
    return a + b


async def _later() -> None: ...


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda shop: Celery("x"), "offpath="),
        (lambda shop: shop.task(_later).map([1]), "a job each"),
        (lambda shop: shop.task(_later).chunks([[1]], 1), "a job each"),
        (lambda shop: shop.task(max_retries=-1)(_add), "max_retries"),
        (lambda shop: shop.task(rate_limit="ten")(_add), "rate_limit"),
        (lambda shop: shop.task(retry_kwargs={"queue": "a"})(_add), "retry_kwargs"),
        (lambda shop: crontab(day_of_month=1, day_of_week="fri"), "two schedules"),
        (lambda shop: crontab(second=1), "minute"),
        (lambda shop: chain(), "at least one"),
        (lambda shop: group([1]), "task.s"),
        (lambda shop: chord([])(), "body"),
        (lambda shop: shop.task(_add).chunks([], 0), "at least 1"),
        (lambda shop: shop.send_task("elsewhere", (1,)), "by name"),
        (lambda shop: shop.config_from_object("no.such.module"), "no.such.module"),
        (lambda shop: shop.conf.update(task_serializer="pickle"), "JSON"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    shop: Celery, make: Callable[[Celery], object], word: str
) -> None:
    refused(lambda: make(shop), word)


def test_a_retry_changes_nothing_but_the_time(shop: Celery) -> None:
    add = shop.task(_add)
    changes: list[dict[str, Any]] = [
        {"args": (1,)}, {"kwargs": {}}, {"throw": False}, {"queue": "a"},
    ]  # fmt: skip
    for given in changes:
        refused(lambda given=given: add.retry(**given), "retry")  # type: ignore[misc]


def test_what_json_has_not_is_refused_and_nothing_is_written(shop: Celery) -> None:
    add = shop.task(_add)
    for value in (object(), {1, 2}, {1: 2}):
        with pytest.raises(InvalidInput):
            add.delay(value, 1)
    assert shop.offpath.blocking.jobs.count() == 0


def test_a_stored_job_is_one_of_the_native_task_that_follows(shop: Celery) -> None:
    """The task may be made native while its jobs wait: arguments are stored by their names."""
    shop.task(name="shop.add")(_add).delay(1, b=2)
    native = offpath.App("memory://", auto_start=False)
    native.task(name="shop.add")(_add)
    (record,) = shop.offpath.blocking.jobs.find().items
    assert native.tasks["shop.add"].inputs.decode(record.input) == ((1, 2), {})


def test_native_code_enqueues_and_awaits_tasks_of_the_shim(shop: Celery) -> None:
    add = shop.task(_add)
    handle = shop.offpath.blocking.enqueue(shop.offpath.tasks[add.name].job(1, 2))
    assert shop.offpath.blocking.run(lambda: drain(shop.offpath)).succeeded == 1
    assert (handle.result(timeout=1), AsyncResult(handle.id, shop).get(timeout=1)) == (3, 3)


def test_a_canvas_is_one_commit(shop: Celery) -> None:
    add = shop.task(_add)
    with pytest.raises(offpath.InvalidArgument):
        chain(add.s(1, 1), add.s(object())).apply_async()
    assert shop.offpath.blocking.jobs.count() == 0
    chord([add.s(1, 1), add.s(2, 2)], add.si(1, 1)).apply_async()
    assert shop.offpath.blocking.jobs.count() == 3


def test_a_row_has_nothing_imported(shop: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    """The class of an error is looked up among loaded modules: whoever writes rows runs no code."""

    class Own(Exception):
        pass

    Own.__module__ = "colorsys"
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)

    def fails() -> None:
        raise Own("no")

    result = shop.task(fails).delay()
    shop.offpath.blocking.run(lambda: drain(shop.offpath))
    found = result.get(timeout=1, propagate=False)
    assert (type(found).__name__, type(found).__module__ != "colorsys") == ("Own", True)
    assert "colorsys" not in sys.modules


def test_the_beat_becomes_schedules(shop: Celery) -> None:
    add = shop.task(_add)
    shop.conf.timezone = "Europe/Berlin"
    shop.conf.beat_schedule = {
        "nightly": {"task": add.name, "schedule": crontab(0, 3), "args": (1, 2)},
        "often": {
            "task": add.name, "schedule": timedelta(seconds=30), "kwargs": {"a": 1, "b": 2},
            "options": {"queue": "mail", "expires": 10},
        },
    }  # fmt: skip

    @shop.on_after_configure.connect
    def more(sender: Celery, **_: object) -> None:
        sender.add_periodic_task(60.0, add.s(3, 4), name="each minute")

    shop.import_beat()
    shop.offpath.blocking.run(lambda: drain(shop.offpath))
    found = {one.schedule.name: one.schedule for one in shop.offpath.blocking.schedules.list()}
    assert set(found) == {"nightly", "often", "each minute"}
    nightly = found["nightly"].timing
    assert (nightly.expression, nightly.zone) == ("0 3 * * *", "Europe/Berlin")
    assert (found["often"].timing.seconds, found["often"].template.queue) == (30.0, "mail")


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        ({"task": "nobody", "schedule": 60}, UnknownTask),
        ({"task": "t", "schedule": "noon"}, NotInShim),
        ({"task": "t", "schedule": 60, "relative": True}, NotInShim),
        ({"task": "t", "schedule": 60, "options": {"countdown": 5}}, NotInShim),
        ({"task": "t", "schedule": 0.1}, offpath.InvalidArgument),
        ({"task": "t", "schedule": crontab(minute=61)}, offpath.InvalidArgument),
    ],
)
def test_a_beat_entry_that_cannot_be_is_refused(
    shop: Celery, entry: dict[str, Any], error: type[Exception]
) -> None:
    shop.task(name="t")(lambda: None)
    shop.conf.beat_schedule = {"x": entry}
    with pytest.raises(error):
        shop.import_beat()


def test_routes_and_defaults_say_the_queue(shop: Celery) -> None:
    shop.conf.update(
        task_default_queue="low", task_routes={"shop.mail.*": {"queue": "mail"}}, broker_url="x"
    )
    for name, options, queue in (
        ("shop.mail.send", {}, "mail"), ("shop.other", {}, "low"),
        ("shop.own", {"queue": "own"}, "own"), ("shop.mail.own", {"queue": "own"}, "own"),
    ):  # fmt: skip
        task = shop.task(name=name, **options)(lambda: None)
        assert shop.offpath.blocking.jobs.get(task.delay().id).queue == queue
        assert shop.offpath.blocking.jobs.get(task.apply_async(queue="q").id).queue == "q"


def test_celery_need_not_be_installed() -> None:
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('celery', 'kombu', 'redis', 'django')));"
        "from offpath.contrib.celery import Celery, shared_task; Celery('x', offpath='memory://')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


DJANGO = """
import sys
from django.conf import settings
db = {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1],
      "OPTIONS": {"transaction_mode": "IMMEDIATE"}}
settings.configure(DATABASES={"default": db})
import django
django.setup()
from django.db import transaction
from offpath.contrib.celery import Celery
app = Celery("shop", offpath=f"sqlite:///{sys.argv[1]}")
app.offpath.blocking.migrate()

@app.task
def add(a, b): return a + b

def left_alone():
    with transaction.atomic():
        add.delay_on_commit(1, 2)
        raise ZeroDivisionError

def count(): return app.offpath.blocking.jobs.count()

try: left_alone()
except ZeroDivisionError: pass
assert count() == 0, count()
with transaction.atomic():
    add.delay(1, 2)
    (add.s(1, 2) | add.s(3)).delay()
assert count() == 3, count()
add.delay(1, 2)
assert count() == 4, count()
app.offpath.blocking.close()
"""


def test_in_an_atomic_block_of_django_a_job_is_a_row_of_its_transaction(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", DJANGO, str(tmp_path / "site.db")], check=True)


def test_a_django_that_is_imported_and_not_set_up_does_not_matter(tmp_path: Path) -> None:
    code = (
        "import sys, django.db; from offpath.contrib.celery import Celery;"
        "app = Celery('x', offpath=sys.argv[1]); app.offpath.blocking.migrate();"
        "app.task(name='t')(lambda: None).delay(); app.offpath.blocking.close()"
    )
    url = f"sqlite:///{tmp_path / 'work.db'}"
    subprocess.run([sys.executable, "-c", code, url], check=True)


# -- async tasks ---------------------------------------------------------------------------------


def ran(shop: Celery, result: AsyncResult) -> tuple[str, Any]:
    """The state of a call and what it gave, after a worker has run it."""
    shop.offpath.blocking.run(lambda: drain(shop.offpath, timeout=20))
    return result.state, result.result


def test_an_async_task_runs_with_its_request_and_what_follows_it(shop: Celery) -> None:
    @shop.task(bind=True)
    async def double(self: Any, n: int) -> list[Any]:
        await asyncio.sleep(0)
        return [2 * n, self.request.retries, self.request.id]

    @shop.task
    async def first(several: list[Any]) -> Any:
        return several[0]

    result = double.delay(4)
    assert ran(shop, result) == ("SUCCESS", [8, 0, result.id])
    assert ran(shop, chain(double.s(5), first.s()).apply_async()) == ("SUCCESS", 10)


def test_the_soft_limit_is_raised_where_an_async_task_waits_and_may_be_caught(shop: Celery) -> None:
    @shop.task(soft_time_limit=0.05, time_limit=30)
    async def cleans_up() -> str:
        try:
            await asyncio.Event().wait()
        except exceptions.SoftTimeLimitExceeded:
            await asyncio.sleep(0)  # it may go on waiting: the error comes once
            return "cleaned up"
        return "never"

    @shop.task(soft_time_limit=0.05)
    async def fails() -> None:
        await asyncio.Event().wait()

    @shop.task(soft_time_limit=0.05, autoretry_for=(exceptions.SoftTimeLimitExceeded,))
    async def again() -> None:
        await asyncio.Event().wait()

    @shop.task(soft_time_limit=60)
    async def quick() -> str:
        await asyncio.sleep(0)
        return "quick"

    assert ran(shop, cleans_up.delay()) == ("SUCCESS", "cleaned up")
    state, error = ran(shop, fails.delay())
    assert (state, type(error).__name__) == ("FAILURE", "SoftTimeLimitExceeded")
    assert ran(shop, again.delay())[0] == "RETRY"
    assert ran(shop, quick.delay()) == ("SUCCESS", "quick")


def test_an_async_errback_is_awaited(shop: Celery) -> None:
    told: list[Any] = []

    @shop.task
    async def tell(request: Any, error: BaseException, failure: Any) -> None:
        await asyncio.sleep(0)
        told.append((request.id, str(error)))

    @shop.task
    def fails() -> None:
        raise LookupError("gone")

    result = fails.apply_async(link_error=tell.s())
    assert ran(shop, result)[0] == "FAILURE"
    assert told == [(result.id, "gone")]


def test_what_an_async_task_waits_for_may_fail_and_the_limit_stays_away(shop: Celery) -> None:
    @shop.task(soft_time_limit=60)
    async def fails() -> str:
        try:
            await asyncio.wait_for(asyncio.Event().wait(), 0.01)
        except TimeoutError:
            return "its own limit"
        return "never"

    assert ran(shop, fails.delay()) == ("SUCCESS", "its own limit")


def test_the_hard_limit_goes_before_the_soft_one(shop: Celery) -> None:
    @shop.task(soft_time_limit=0.2, time_limit=0.05, max_retries=0)
    async def slow() -> None:
        await asyncio.Event().wait()

    state, error = ran(shop, slow.delay())
    assert state == "FAILURE"
    assert not isinstance(error, exceptions.SoftTimeLimitExceeded)


def test_a_soft_limit_of_a_thread_is_refused(shop: Celery) -> None:
    refused(lambda: shop.task(_add, soft_time_limit=3), "no error can be raised in the thread")
