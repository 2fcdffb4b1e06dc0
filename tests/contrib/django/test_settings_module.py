"""A project of Django's that is named by its settings (``offpath worker --app shop.settings``), and
what goes wrong elsewhere with workers, imports and forks.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.contrib.processes import Processes

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "site_settings.py": """
import os
from pathlib import Path
SECRET_KEY = "x"
DEBUG = "DEBUGGED" in os.environ
ROOT_URLCONF = "shop.urls"
INSTALLED_APPS = os.environ.get("APPS", "shop offpath.contrib.django").split()
DATABASES = {"default": {
    "ENGINE": "django.db.backends.sqlite3", "NAME": Path(__file__).parent / "site.db",
    "OPTIONS": {"transaction_mode": os.environ.get("MODE", "IMMEDIATE")},
}}
TASKS = {
    "other": {"BACKEND": "shop.quiet.Nothing"},
    "default": {
        "BACKEND": "offpath.contrib.django.OffpathBackend",
        "OPTIONS": {
            "imports": os.environ.get("IMPORTS", "").split(),
            **dict.fromkeys(os.environ.get("OTHERS", "").split(), "now"),
        },
    },
}
""",
    "shop/__init__.py": "",
    "shop/quiet.py": """
from offpath.contrib.django.names import BaseTaskBackend

class Nothing(BaseTaskBackend):
    def enqueue(self, task, args, kwargs): ...
""",
    "shop/urls.py": "import shop.tasks\n\nurlpatterns = []\n",
    "shop/tasks.py": """
import logging, os, signal
from offpath.contrib.django import task

@task
def double(n: int) -> int:
    return 2 * n

@task
def say(text: str) -> None:
    logging.getLogger("django.shop").info(text)

@task(takes_context=True)
def die_once(context) -> int:
    if context.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return context.attempt
""",
    "shop/hidden.py": """
from offpath.contrib.django import task

@task
def unknown() -> str:
    return "known"
""",
}


@pytest.fixture
def project(tmp_path: Path) -> Processes:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    return Processes(tmp_path, {})


def offpath(project: Processes, *arguments: str, **variables: str) -> tuple[int, str]:
    found = subprocess.run(
        [sys.executable, "-m", "offpath", *arguments], cwd=project.folder,
        env={**os.environ, **variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return found.returncode, found.stdout + found.stderr


def test_its_tasks_run_and_are_listed(project: Processes) -> None:
    app = ("--app", "site_settings")
    code, text = offpath(project, "enqueue", "shop.tasks.double", "n=4", *app)
    assert (code, text) == (0, text), text
    code, text = offpath(project, "worker", *app, "--until-idle")
    assert (code, "shop.tasks.double" in text) == (0, True), text
    code, text = offpath(project, "jobs", "list", "--url", f"sqlite:///{project.folder}/site.db")
    assert (code, "succeeded" in text) == (0, True), text


def manage(project: Processes, *arguments: str, **variables: str) -> tuple[int, str]:
    found = subprocess.run(
        [sys.executable, "-m", "django", *arguments], cwd=project.folder,
        env={**os.environ, "PYTHONPATH": str(project.folder),
             "DJANGO_SETTINGS_MODULE": "site_settings", **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return found.returncode, found.stdout + found.stderr


@pytest.mark.parametrize(
    ("variables", "code", "word"),
    [
        ({}, 0, "no issues"),
        ({"MODE": "DEFERRED"}, 0, "offpath.W003"),
        ({"OTHERS": "enque"}, 1, "did you mean 'enqueue'?"),
        ({"APPS": "shop"}, 1, "add 'offpath.contrib.django' to INSTALLED_APPS"),
    ],
)
def test_a_check_of_the_project_tells_what_is_wrong(
    project: Processes, variables: dict[str, str], code: int, word: str
) -> None:
    ended, text = manage(project, "check", **variables)
    assert (ended, word in text) == (code, True), text


def test_a_worker_does_not_start_with_a_slip_in_the_settings(project: Processes) -> None:
    ended, text = manage(project, "offpath_worker", "--until-idle", OTHERS="enque")
    assert (ended, "offpath.E005" in text) == (1, True), text


# -- what goes wrong elsewhere -------------------------------------------------------------------


def script(project: Processes, text: str, **variables: str) -> str:
    """Run a program of the project's; its output."""
    begin = "import os\nimport django\ndjango.setup()\n"
    found = subprocess.run(
        [sys.executable, "-c", begin + text], cwd=project.folder,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "site_settings", **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


@pytest.fixture
def migrated(project: Processes) -> Processes:
    script(
        project, "from django.core.management import call_command as c; c('migrate', verbosity=0)"
    )
    return project


def status(project: Processes, task: str, job: str) -> str:
    module, _, name = task.rpartition(".")
    return script(
        project,
        f"from {module} import {name} as task\nfound = task.get_result({job!r})\n"
        "print(found.status.value, found.attempts)",
    )


def enqueued(project: Processes, task: str) -> str:
    module, _, name = task.rpartition(".")
    return script(project, f"from {module} import {name} as task\nprint(task.enqueue().id)")


def test_a_worker_that_crashes_leaves_no_task_running_for_ever(migrated: Processes) -> None:
    job = enqueued(migrated, "shop.tasks.die_once")
    worker = ("worker", "--app", "site_settings", "--until-idle")
    code, text = offpath(migrated, *worker)
    assert code == -9, text
    assert status(migrated, "shop.tasks.die_once", job).startswith("RUNNING")
    code, text = offpath(migrated, "worker", "--app", "site_settings", "--max-jobs", "1")
    assert code == 0, text
    assert status(migrated, "shop.tasks.die_once", job) == "SUCCESSFUL 2"


def test_a_task_whose_module_was_not_imported_waits_for_a_worker_that_knows_it(
    migrated: Processes,
) -> None:
    job = enqueued(migrated, "shop.hidden.unknown")
    worker = ("worker", "--app", "site_settings", "--until-idle")
    code, text = offpath(migrated, *worker)
    assert code == 0, text
    assert status(migrated, "shop.hidden.unknown", job) == "READY 0"
    code, text = offpath(migrated, "doctor", "--url", f"sqlite:///{migrated.folder}/site.db")
    assert "shop.hidden.unknown" in text
    code, text = offpath(migrated, *worker, IMPORTS="shop.hidden")
    assert code == 0, text
    assert status(migrated, "shop.hidden.unknown", job) == "SUCCESSFUL 1"


def test_a_fork_after_the_set_up_enqueues_in_both_processes(migrated: Processes) -> None:
    text = """
from django.db import connections
from shop.tasks import double
from offpath.contrib.django import app_of
double.enqueue(1)
app_of().blocking.jobs.count()  # the app is open, with threads of its own
child = os.fork()
if child == 0:
    connections.close_all()
    double.enqueue(2)
    assert app_of().blocking.jobs.count() == 2
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
double.enqueue(3)
print(app_of().blocking.jobs.count())
"""
    assert script(migrated, text) == "3"


def test_other_settings_of_the_environment_are_refused(project: Processes) -> None:
    code, text = offpath(
        project, "worker", "--app", "site_settings", DJANGO_SETTINGS_MODULE="shop.other"
    )
    assert (code, "give one of the two" in text) == (2, True), text


@pytest.mark.parametrize("variables", [{}, {"DEBUGGED": "1"}])
def test_a_worker_writes_a_line_of_djangos_once(
    migrated: Processes, variables: dict[str, str]
) -> None:
    """With DEBUG, Django's own handler writes it, and without, ours does."""
    script(migrated, "from shop.tasks import say\nsay.enqueue('heard by all')")
    ended, text = manage(migrated, "offpath_worker", "--until-idle", **variables)
    assert (ended, text.count("heard by all")) == (0, 1), text
