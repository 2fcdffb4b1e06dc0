"""``offpath celery scan``: what it tells of a code base, which it reads and never imports."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from offpath.cli.main import cli
from offpath.contrib.celery.command import celery
from offpath.contrib.celery.scan import ScanReport, scan
from offpath.errors import InvalidArgument

if TYPE_CHECKING:
    from pathlib import Path

APP = """
from datetime import timedelta
import celery as c
from celery.schedules import crontab, solar
app = c.Celery("shop", broker="redis://")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.task_always_eager = True
app.conf.update(task_serializer="json", result_serializer="pickle")
app.conf.beat_schedule = {
    "nightly": {"task": "t", "schedule": crontab(minute=0, hour=[3, 4])},
    "often": {"task": "t", "schedule": timedelta(seconds=30), "options": {"expires": 9}},
    "sunset": {"task": "t", "schedule": solar("sunset", 1, 2)},
    "friday 13": {"task": "t", "schedule": crontab(day_of_month=13, day_of_week="fri")},
    "made": {"task": "t", "schedule": WHEN},
}
app.conf.beat_schedule["late"] = {"task": "t", "schedule": 60.0, "relative": True}
raise SystemExit("imported")
"""
TASKS = """
from celery import shared_task, chain, group, chord, Task
from celery.signals import task_failure, worker_process_init
from celery.exceptions import Ignore
from kombu import Queue
from .celery import app

class Base(Task): ...

@app.task(bind=True, autoretry_for=(IOError,), soft_time_limit=3, wings=2)
def add(self, a, b):
    if self.request.retries > 3:
        raise self.retry(countdown=5, throw=False)
    self.update_state(state="PROGRESS")
    return self.request.chord

@shared_task(rate_limit="10/m")
async def later(xs): ...

def go(signature):
    result = add.apply_async((1, 2), countdown=3, expires=5, routing_key="x")
    result.revoke(terminate=True)
    chord([add.s(i, i) for i in range(3)])(later.s())
    (add.s(1, 2) | add.si(3)).delay()
    add.delay(1).get(timeout=3)
    app.control.purge()
    signature.apply_async(queue="a")
    app.send_task("x")
    {}.update(task_always_eager=True)
    "text".map()
"""
SETTINGS = """
CELERY_TASK_TIME_LIMIT = 4
CELERY_NO_SUCH = 1
CELERYD_POOL = "gevent"
DEBUG = True
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    for name, text in {
        "shop/__init__.py": "",
        "shop/celery.py": APP,
        "shop/tasks.py": TASKS,
        "shop/settings.py": SETTINGS,
        "shop/.hidden/more.py": APP,
        "node_modules/x.py": APP,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def told(report: ScanReport) -> dict[tuple[str, str], str]:
    return {(one.kind, one.name): one.meaning.value for one in report.places}


EVERY = {
    ("app", "Celery"): "changed",
    ("option", "Celery broker"): "unsupported",
    ("call", "app.config_from_object"): "changed",
    ("setting", "task_always_eager"): "unsupported",
    ("setting", "task_serializer"): "as_is",
    ("setting", "result_serializer"): "unsupported",
    ("setting", "beat_schedule"): "as_is",
    ("beat", "nightly"): "as_is",
    ("beat", "often"): "as_is",
    ("beat", "often: options expires"): "changed",
    ("beat", "sunset"): "unsupported",
    ("beat", "friday 13"): "unsupported",
    ("beat", "made"): "changed",
    ("beat", "late"): "as_is",
    ("beat", "late: relative"): "unsupported",
    ("import", "solar"): "unsupported",
    ("import", "Task"): "unsupported",
    ("import", "Ignore"): "unsupported",
    ("import", "kombu.Queue"): "unsupported",
    ("signal", "task_failure"): "as_is",
    ("signal", "worker_process_init"): "unsupported",
    ("task", "Base"): "unsupported",
    ("task", "add"): "as_is",
    ("task", "later"): "changed",
    ("option", "@task bind"): "as_is",
    ("option", "@task autoretry_for"): "as_is",
    ("option", "@task soft_time_limit"): "unsupported",
    ("option", "@task wings"): "unsupported",
    ("option", "@task rate_limit"): "changed",
    ("call", "retry"): "as_is",
    ("option", "retry countdown"): "as_is",
    ("option", "retry throw"): "unsupported",
    ("call", "update_state"): "unsupported",
    ("call", "request.chord"): "unsupported",
    ("call", "apply_async"): "as_is",
    ("option", "apply_async countdown"): "as_is",
    ("option", "apply_async expires"): "changed",
    ("option", "apply_async routing_key"): "unsupported",
    ("option", "apply_async queue"): "as_is",
    ("result", "revoke"): "changed",
    ("result", "get"): "changed",
    ("canvas", "chord"): "changed",
    ("canvas", "s"): "as_is",
    ("canvas", "si"): "as_is",
    ("canvas", "|"): "as_is",
    ("call", "delay"): "as_is",
    ("call", "app.control"): "unsupported",
    ("call", "app.send_task"): "changed",
    ("setting", "task_time_limit"): "changed",
    ("setting", "no_such"): "unsupported",
}


@pytest.mark.parametrize("inside", [False, True])
def test_each_kind_of_place_is_told(shop: Path, inside: bool) -> None:
    """Also where the folder that is scanned is the package itself."""
    assert told(scan(shop / "shop" if inside else shop)) == EVERY


def test_nothing_is_imported(shop: Path) -> None:
    before = set(sys.modules)
    scan(shop)
    assert not {name for name in set(sys.modules) - before if "shop" in name or name == "celery"}


def test_a_place_has_its_file_and_line(shop: Path) -> None:
    (found,) = (one for one in scan(shop).places if one.name == "apply_async routing_key")
    line = (shop / found.file).read_text().splitlines()[found.line - 1]
    assert (found.file, "routing_key" in line) == ("shop/tasks.py", True)


def test_a_crontab_becomes_an_expression(shop: Path) -> None:
    (found,) = (one for one in scan(shop).places if one.name == "nightly")
    assert 'cron="0 3,4 * * *"' in found.text


@pytest.mark.parametrize(
    "text", ["def broken(:", "x = '\0'", "(" * 4000 + ")" * 4000, "# coding: nonsense\n"]
)
def test_a_file_that_cannot_be_read_is_told_and_stops_no_other(shop: Path, text: str) -> None:
    (shop / "bad.py").write_text(text)
    report = scan(shop)
    assert [one.file for one in report.unread] == ["bad.py"]
    assert report.unread[0].reason
    assert told(report) == EVERY


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_a_path_without_python_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidArgument, match="there is no"):
        scan(tmp_path / name)


def run(*arguments: str) -> tuple[int, str]:
    cli.add_command(celery)
    done = CliRunner().invoke(cli, ["celery", "scan", *arguments])
    return done.exit_code, done.output


def test_the_command_is_80_columns_wide_and_ends_with_3(shop: Path) -> None:
    code, output = run(str(shop), "--all")
    assert code == 3
    assert max(map(len, output.splitlines())) <= 80
    assert "shop/tasks.py" in output
    assert "app.schedule(name, task.job(...)" in output


def test_the_command_says_the_same_as_json(shop: Path) -> None:
    code, output = run(str(shop), "--json")
    document: dict[str, Any] = json.loads(output)
    assert (code, document["files"], document["unread"]) == (3, 4, [])
    assert {(one["kind"], one["name"]): one["meaning"] for one in document["items"]} == EVERY
    assert sum(document["counts"].values()) == len(document["items"])


def test_code_that_works_as_it_is_ends_with_0(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text("from celery import shared_task\n@shared_task\ndef f(): ...")
    assert run(str(tmp_path))[0] == 0


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    code, output = run(str(tmp_path / "nowhere"))
    assert (code, output.count("\n")) == (2, 1)
    assert "(invalid_argument)" in output
