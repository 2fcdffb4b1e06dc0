"""The dashboard by ``include``: under WSGI and ASGI, with Django's users and permissions."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import connections
from django.test import AsyncClient, Client, override_settings
from django.urls import clear_url_caches, include, path

from offpath.contrib.django import dashboard_urls, mounted
from offpath.contrib.django.names import task_backends
from offpath.jobs.blocking.loop_thread import LoopThread, wait
from offpath.web import dashboard
from tests.contrib.django import site, tasks
from tests.contrib.django.conftest import point_to, work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Django keeps a connection for each thread, and the threads of a test end with their loop.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")

urlpatterns: list[Any] = []
ASGI = LoopThread()
"""The loop of the server that is ASGI."""
LOOPS: list[LoopThread] = []
"""The loop that the dashboard of this test is in."""
CONSOLES: list[Any] = []
"""The dashboards that were made."""
DEAD: list[str] = []
"""The id of the dead one."""


@pytest.fixture
def project(alias: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A project whose dashboard is at ``/jobs/``; one task of it is dead."""

    def made(*given: Any, **terms: Any) -> Any:
        CONSOLES.append(dashboard(*given, **terms))
        return CONSOLES[-1]

    monkeypatch.setattr(mounted, "dashboard", made)
    if alias != site.SQLITE:
        point_to(site.SQLITE, NAME=str(tmp_path / "users.db"))
    with override_settings(
        TASKS={alias: site._tasks()[alias]},
        ROOT_URLCONF=__name__,
        ALLOWED_HOSTS=["testserver"],
        LOGIN_URL="/sign-in/",
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    ):
        urlpatterns[:] = [path("jobs/", include("offpath.contrib.django.urls"))]
        clear_url_caches()
        call_command("migrate", verbosity=0)
        DEAD[:] = [tasks.give_up.using(backend=alias).enqueue().id]
        work(alias)
        yield alias
        for loop in LOOPS:
            wait(asyncio.run_coroutine_threadsafe(_close(), loop.loop()))
        LOOPS.clear()
        connections[site.SQLITE].close()


async def _close() -> None:
    """Close what the first request opened, in its loop: Django closes nothing."""
    for console in CONSOLES:
        async with console._inner.lifespan_context(console._inner):
            pass
    CONSOLES.clear()


def user_of(*rights: str, **given: Any) -> User:
    user = User.objects.create(username=f"u{User.objects.count()}", **given)
    user.user_permissions.set(Permission.objects.filter(codename__in=rights))
    return user


def by_wsgi(user: User | None) -> Callable[..., Any]:
    """Asks as somebody does whose server is WSGI."""
    LOOPS[:] = [mounted._LOOP]
    client = Client(headers={"host": "testserver"})
    if user is not None:
        client.force_login(user)
    ask: Callable[..., Any] = client.generic
    return ask


def by_asgi(user: User | None) -> Callable[..., Any]:
    """Asks as somebody does whose server is ASGI: all in one loop, as there."""
    client = AsyncClient()
    if user is not None:
        client.force_login(user)
    LOOPS[:] = [ASGI]

    async def asked(*given: Any, **more: Any) -> Any:
        answer = await client.generic(*given, **more)
        if answer.streaming:
            answer.rows = b"".join([one async for one in answer.streaming_content])
        return answer

    def ask(*given: Any, **more: Any) -> Any:
        return wait(asyncio.run_coroutine_threadsafe(asked(*given, **more), ASGI.loop()))

    return ask


def body_of(answer: Any) -> bytes:
    return b"".join(answer.streaming_content) if answer.streaming else bytes(answer.content)


@pytest.mark.parametrize("server", [by_wsgi, by_asgi])
def test_pages_and_actions_are_those_of_a_permitted_user(project: str, server: Any) -> None:
    ask = server(user_of("view_dashboard", "view_payload", "act_job", is_staff=True))
    links: list[str] = []
    for page in ("", "jobs", "dead"):
        answer = ask("GET", f"/jobs/{page}")
        assert answer.status_code == 200
        links = re.findall(r'(?:href|src|action)="(/[^"]*)"', body_of(answer).decode())
        assert links
        assert [one for one in links if not one.startswith("/jobs/")] == []
    sheet = next(one for one in links if "console.css" in one)
    assert ask("GET", sheet).status_code == 200
    listed = ask("GET", "/jobs/api/v1/dead?format=csv")
    assert listed["content-type"].startswith("text/csv")
    assert listed.streaming
    assert b"give_up" in (getattr(listed, "rows", None) or body_of(listed))
    asked = json.dumps({"verb": "job.redrive", "target": {"ids": DEAD}})
    headers = {"origin": "http://testserver"}
    told = ask(
        "POST", "/jobs/api/v1/actions", asked, content_type="application/json", headers=headers
    )
    assert told.status_code in {200, 202}, body_of(told)
    assert task_backends[project].get_result(DEAD[0]).status.value == "READY"


@pytest.mark.parametrize("server", [by_wsgi, by_asgi])
def test_nobody_looks_without_the_permission_or_acts_without_its_own(
    project: str, server: Any
) -> None:
    plain = {"accept": "application/json"}
    for user, code in (
        (None, 401),
        (user_of("view_dashboard"), 401),  # not of the staff
        (user_of("act_job", "view_taskjob", is_staff=True), 401),
        (user_of("view_dashboard", is_staff=True), 200),
        (user_of(is_staff=True, is_superuser=True), 200),
    ):
        assert server(user)("GET", "/jobs/api/v1/me", headers=plain).status_code == code
    away = server(None)("GET", "/jobs/", headers={"accept": "text/html"})
    assert (away.status_code, away["location"]) == (303, "/sign-in/")
    looks = server(user_of("view_dashboard", is_staff=True))
    asked = json.dumps({"verb": "queue.pause", "target": {"ids": ["default"]}})
    told = looks("POST", "/jobs/api/v1/actions", asked, content_type="application/json")
    assert told.status_code == 403


@pytest.mark.parametrize("server", [by_wsgi, by_asgi])
def test_another_site_changes_nothing_and_another_host_is_not_answered(
    project: str, server: Any
) -> None:
    ask = server(user_of(is_staff=True, is_superuser=True))
    asked = json.dumps({"verb": "queue.pause", "target": {"ids": ["default"]}})
    evil = {"origin": "http://evil.example"}
    told = ask("POST", "/jobs/api/v1/actions", asked, content_type="application/json", headers=evil)
    assert told.status_code == 403
    assert ask("GET", "/jobs/", headers={"host": "evil.example"}).status_code == 400


def test_terms_are_those_of_the_dashboard(project: str) -> None:
    urlpatterns[:] = [path("ops/", include(dashboard_urls(title="the shop", read_only=True)))]
    clear_url_caches()
    ask = by_wsgi(user_of(is_staff=True, is_superuser=True))
    assert b"the shop" in body_of(ask("GET", "/ops/"))


def test_a_term_that_the_dashboard_has_not_is_refused() -> None:
    with pytest.raises(TypeError, match="readonly"):
        dashboard_urls(readonly=True)
