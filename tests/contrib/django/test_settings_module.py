"""A project of Django's that is named by its settings: ``offpath worker --app shop.settings``."""

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
from pathlib import Path
SECRET_KEY = "x"
INSTALLED_APPS = ["shop", "offpath.contrib.django"]
DATABASES = {"default": {
    "ENGINE": "django.db.backends.sqlite3", "NAME": Path(__file__).parent / "site.db",
    "OPTIONS": {"transaction_mode": "IMMEDIATE"},
}}
TASKS = {
    "other": {"BACKEND": "shop.quiet.Nothing"},
    "default": {"BACKEND": "offpath.contrib.django.OffpathBackend"},
}
""",
    "shop/__init__.py": "",
    "shop/quiet.py": "class Nothing: ...\n",
    "shop/tasks.py": """
from offpath.contrib.django import task

@task
def double(n: int) -> int:
    return 2 * n
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


def test_other_settings_of_the_environment_are_refused(project: Processes) -> None:
    code, text = offpath(
        project, "worker", "--app", "site_settings", DJANGO_SETTINGS_MODULE="shop.other"
    )
    assert (code, "give one of the two" in text) == (2, True), text
