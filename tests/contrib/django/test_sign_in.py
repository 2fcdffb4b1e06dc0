"""The dashboard behind Django's sign-in: who is let in, with which rights, and who is not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.test import Client, override_settings

from offpath.contrib.django import session_auth
from offpath.errors import TaskError
from offpath.web import dashboard
from offpath.web.auth import VIEWER
from tests.contrib.django import site
from tests.contrib.django.conftest import point_to
from tests.sqlite_files import migrated_url
from tests.unit.web.dashboard.rig import Answer, Site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Django keeps a connection for each thread, and the threads of a test end with their loop.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")

KEY = "offpath-session"
urlpatterns: list[Any] = []


@pytest.fixture(autouse=True)
def users(tmp_path: Path) -> Iterator[Any]:
    """Django's users and sessions, in a database of the test's own."""
    point_to(site.SQLITE, NAME=str(tmp_path / "users.db"))
    hasher = "django.contrib.auth.hashers.MD5PasswordHasher"
    with override_settings(
        ROOT_URLCONF=__name__,
        SESSION_COOKIE_NAME=KEY,
        LOGIN_URL="/accounts/login/",
        PASSWORD_HASHERS=[hasher],
    ):
        for one in ("contenttypes", "auth", "sessions"):
            call_command("migrate", one, verbosity=0)
        from django.contrib.auth.models import User

        yield User.objects


def cookie_of(user: Any) -> str:
    """The cookie of somebody who has just signed in."""
    client = Client()
    client.force_login(user)
    return f"{KEY}={client.cookies[KEY].value}"


@pytest.fixture
def console(tmp_path: Path) -> Site:
    """A dashboard that Django's users look at."""
    return Site(dashboard(migrated_url(tmp_path / "jobs.db"), auth=session_auth()))


async def asked(console: Site, cookie: str, path: str = "/api/v1/me") -> Answer:
    """The answer to somebody with this cookie."""
    return await console.get(path, headers={"cookie": cookie, "accept": "application/json"})


@pytest.mark.parametrize(
    ("given", "can"),
    [
        ({"is_staff": True}, ["act", "operate", "payload", "read"]),
        (
            {"is_staff": True, "is_superuser": True},
            ["act", "enqueue", "money", "operate", "payload", "read"],
        ),
    ],
)
async def test_staff_operates_and_superusers_do_all(
    console: Site, users: Any, given: dict[str, bool], can: list[str]
) -> None:
    user = await asyncio.to_thread(users.create_user, "ann", password="x", **given)
    answer = await asked(console, await asyncio.to_thread(cookie_of, user))
    assert answer.document == {"name": "ann", "can": can}


@pytest.mark.parametrize(
    "cookie",
    ["", f"{KEY}=", f"{KEY}=wrong", f"{KEY}={'x' * 1_048_576}", f"{KEY}=a\x00b", "other=1"],
    ids=["none", "empty", "wrong", "huge", "nul", "another"],
)
async def test_nobody_is_let_in_without_a_session(console: Site, cookie: str) -> None:
    assert (await asked(console, cookie)).code == 401
    page = await console.get("/jobs", headers={"cookie": cookie, "accept": "text/html"})
    assert (page.code, page.headers["location"]) == (303, "/accounts/login/")


async def test_a_user_who_is_not_staff_is_nobody(console: Site, users: Any) -> None:
    user = await asyncio.to_thread(users.create_user, "eve", password="x")
    assert (await asked(console, await asyncio.to_thread(cookie_of, user))).code == 401


async def test_a_changed_password_ends_the_session(console: Site, users: Any) -> None:
    user = await asyncio.to_thread(users.create_user, "ann", password="x", is_staff=True)
    cookie = await asyncio.to_thread(cookie_of, user)
    assert (await asked(console, cookie)).code == 200
    user.set_password("another")
    await asyncio.to_thread(user.save)
    assert (await asked(console, cookie)).code == 401


async def test_somebody_who_has_left_is_out_at_once(console: Site, users: Any) -> None:
    user = await asyncio.to_thread(users.create_user, "ann", password="x", is_staff=True)
    cookie = await asyncio.to_thread(cookie_of, user)
    user.is_active = False
    await asyncio.to_thread(user.save)
    assert (await asked(console, cookie)).code == 401


async def test_rights_are_the_project_s(tmp_path: Path, users: Any) -> None:
    known = session_auth(lambda user: VIEWER if user.username == "eve" else None)
    console = Site(dashboard(migrated_url(tmp_path / "jobs.db"), auth=known))
    for name, code in (("eve", 200), ("ann", 401)):
        user = await asyncio.to_thread(users.create_user, name, password="x")
        answer = await asked(console, await asyncio.to_thread(cookie_of, user))
        assert (name, answer.code) == (name, code)


def test_rights_must_be_a_plain_function() -> None:
    async def rights(_: Any) -> None: ...

    with pytest.raises(TaskError, match="async"):
        session_auth(rights)  # type: ignore[arg-type]
