"""Jobs in Django's admin: a few queries for any list, no DISTINCT, actions that are audited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.apps import apps
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import connections
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.urls import path

from offpath.contrib.django import app_of
from offpath.contrib.django.models import TaskJob, table_name
from tests.contrib.django import site, tasks
from tests.contrib.django.conftest import point_to, work

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIST = "/admin/offpath/taskjob/"
urlpatterns: list[Any] = []


@pytest.fixture
def jobs(alias: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A project with the admin whose jobs are in one database; the others' are not its business."""
    if alias != site.SQLITE:
        point_to(site.SQLITE, NAME=str(tmp_path / "users.db"))
    monkeypatch.setattr(TaskJob._meta, "db_table", table_name(alias))
    forget_columns()
    with override_settings(
        TASKS={alias: site._tasks()[alias]},
        ROOT_URLCONF=__name__,
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    ):
        from django.contrib import admin

        urlpatterns[:] = [path("admin/", admin.site.urls)]
        call_command("migrate", verbosity=0)
        yield alias
        connections[site.SQLITE].close()
    forget_columns()


def forget_columns() -> None:
    """A project has its jobs in one place; Django remembers the table in each column."""
    for field in TaskJob._meta.fields:
        field.__dict__.pop("cached_col", None)


def client_of(*rights: str, superuser: bool = False) -> Client:
    user = User.objects.create(username=f"u{len(rights)}", is_staff=True, is_superuser=superuser)
    user.user_permissions.set(Permission.objects.filter(codename__in=rights))
    client = Client()
    client.force_login(user)
    return client


def text_of(client: Client, place: str) -> str:
    answer = client.get(place)
    assert answer.status_code == 200, answer.status_code
    return str(answer.content.decode())


def enqueue(alias: str, count: int) -> list[str]:
    return [str(tasks.double.using(backend=alias).enqueue(n).id) for n in range(count)]


def queries(client: Client, alias: str, place: str) -> list[str]:
    """The statements of one page, on all databases."""
    with (
        CaptureQueriesContext(connections[site.SQLITE]) as users,
        CaptureQueriesContext(connections[alias]) as others,
    ):
        text_of(client, place)
    found = users.captured_queries + (others.captured_queries if alias != site.SQLITE else [])
    return [one["sql"] for one in found]


def test_a_page_takes_the_same_few_queries_whatever_its_length(jobs: str) -> None:
    client = client_of("view_taskjob", "act_job")
    enqueue(jobs, 3)
    few = queries(client, jobs, LIST)
    enqueue(jobs, 60)
    many = queries(client, jobs, f"{LIST}?state=queued&queue=default")
    assert len(few) <= 6, few
    assert len(many) <= 6, many
    assert not [one for one in few + many if "DISTINCT" in one.upper()]
    (count,) = [one for one in many if "COUNT(" in one and "job" in one]
    assert "LIMIT 10000" in count, "a table of millions is not counted"


def test_the_filters_are_the_states_and_the_declared_names(jobs: str) -> None:
    client = client_of(superuser=True)
    (first, *_) = enqueue(jobs, 2)
    tasks.describe.using(backend=jobs).enqueue(1)
    work(jobs)
    waiting = enqueue(jobs, 1)[0]
    assert first in text_of(client, f"{LIST}?state=succeeded")
    assert waiting not in text_of(client, f"{LIST}?state=succeeded")
    assert waiting in text_of(client, f"{LIST}?state=queued")
    assert first not in text_of(client, f"{LIST}?queue=mail")
    assert first in text_of(client, f"{LIST}?task={tasks.double.module_path}")
    page = text_of(client, LIST)
    assert "?queue=mail" in page
    assert f"task={tasks.describe.module_path}" in page


def test_a_job_is_found_by_its_id_alone(jobs: str) -> None:
    client = client_of(superuser=True)
    first, second = enqueue(jobs, 2)
    found = text_of(client, f"{LIST}?q={first}")
    assert first in found
    assert second not in found
    assert first not in text_of(client, f"{LIST}?q=double")


@pytest.mark.parametrize("allowed", [True, False])
def test_arguments_are_for_who_may_see_them(jobs: str, allowed: bool) -> None:
    client = client_of("view_taskjob", *(["view_payload"] if allowed else []))
    given = tasks.describe.using(backend=jobs).enqueue(word="marker-1", password="hunter2")
    page = text_of(client, f"{LIST}{given.id}/change/")
    assert ("marker-1" in page) is allowed
    assert "hunter2" not in page
    assert 'type="submit" value="Save"' not in page


def test_failures_are_shown(jobs: str) -> None:
    failing = tasks.give_up.using(backend=jobs).enqueue()
    work(jobs)
    page = text_of(client_of(superuser=True), f"{LIST}{failing.id}/change/")
    assert "dead" in page
    assert "Abort: no use" in page


def act(client: Client, action: str, *ids: str, **more: str) -> str:
    data = {"action": action, "_selected_action": list(ids), **more}
    return str(client.post(LIST, data, follow=True).content.decode())


def state_of(alias: str, job: str) -> str:
    with app_of(alias).blocking as client:
        return str(client.jobs.get(job).state)


def audit(alias: str) -> list[tuple[str, str, str, int]]:
    table = "offpath_action" if alias == site.SQLITE else "offpath.action"
    with connections[alias].cursor() as cursor:
        cursor.execute(f"select actor, via, verb, changed from {table} order by id")
        return list(cursor.fetchall())


def test_an_action_is_done_by_the_verb_and_is_in_the_audit(jobs: str) -> None:
    client = client_of("view_taskjob", "act_job")
    failing = tasks.give_up.using(backend=jobs).enqueue()
    work(jobs)
    waiting = enqueue(jobs, 1)[0]
    assert "1 redriven; 1 left alone" in act(client, "redrive", failing.id, waiting)
    assert state_of(jobs, failing.id) == "queued"
    assert "1 cancelled" in act(client, "cancel", waiting)
    assert state_of(jobs, waiting) == "cancelled"
    assert audit(jobs) == [
        ("u2", "admin", "job.redrive", 1),
        ("u2", "admin", "job.cancel", 1),
    ]


def test_a_discard_asks_first(jobs: str) -> None:
    client = client_of("view_taskjob", "act_job")
    failing = tasks.give_up.using(backend=jobs).enqueue()
    work(jobs)
    asked = act(client, "discard", failing.id)
    assert "cannot be brought back" in asked
    assert failing.id in asked
    assert state_of(jobs, failing.id) == "dead"
    assert "1 discarded" in act(client, "discard", failing.id, sure="yes")
    assert TaskJob.objects.using(jobs).count() == 0


def test_who_may_only_look_is_offered_no_action_and_cannot_post_one(jobs: str) -> None:
    client = client_of("view_taskjob")
    job = enqueue(jobs, 1)[0]
    assert "Redrive" not in text_of(client, LIST)
    act(client, "cancel", job)
    assert state_of(jobs, job) == "queued"
    assert audit(jobs) == []
    assert client.get(f"{LIST}add/").status_code == 403
    assert client.post(f"{LIST}{job}/delete/", {"post": "yes"}).status_code == 403


def test_who_has_no_right_sees_nothing(jobs: str) -> None:
    assert client_of().get(LIST).status_code == 403


def test_nothing_is_written_through_the_model(jobs: str) -> None:
    job = TaskJob.objects.using(jobs).get(pk=enqueue(jobs, 1)[0])
    assert job.enqueued_at <= job.run_at
    every = TaskJob.objects.all()
    for write in (job.save, job.delete, every.delete, lambda: every.update(state="x")):
        with pytest.raises(NotImplementedError, match="verbs"):
            write()


def test_times_are_looked_for_as_they_are_stored(jobs: str) -> None:
    job = TaskJob.objects.using(jobs).get(pk=enqueue(jobs, 1)[0])
    found = TaskJob.objects.using(jobs).filter(enqueued_at__lte=job.enqueued_at)
    assert [one.pk for one in found] == [job.pk]
    assert not TaskJob.objects.using(jobs).filter(enqueued_at__gt=job.enqueued_at)


def test_django_sees_no_change_to_migrate(jobs: str) -> None:
    call_command("makemigrations", "offpath", check=True, dry_run=True, verbosity=0)


def test_the_permissions_are_there(jobs: str) -> None:
    made = set(
        Permission.objects.filter(content_type__app_label="offpath").values_list(
            "codename", flat=True
        )
    )
    assert made == {"view_taskjob", "act_job", "view_dashboard", "view_payload"}
    assert apps.get_model("offpath.TaskJob") is TaskJob
    assert settings.TASKS.keys() == {jobs}
