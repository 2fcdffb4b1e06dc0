"""Django's connection: inside and outside of ``atomic()``, on both databases.

Django is configured once per process, so each database runs in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from tests.integration.within.callers import file_of

SCRIPT = """
import asyncio, sys
import django
from django.conf import settings

url, engine, name, host, port, user = sys.argv[1:]
settings.configure(
    DATABASES={"default": {
        "ENGINE": f"django.db.backends.{engine}", "NAME": name, "HOST": host, "PORT": port,
        "USER": user,
        **({"OPTIONS": {"transaction_mode": "IMMEDIATE"}} if engine == "sqlite3" else {}),
    }},
    USE_TZ=True,
)
django.setup()

from django.db import connection, transaction
import offpath

app = offpath.App(url, auto_start=False, migrate=True)


@app.task
def double(n: int) -> int:
    return 2 * n


def rows():
    with connection.cursor() as cursor:
        cursor.execute("select count(*) from caller_row")
        return cursor.fetchone()[0]


def insert(number):
    with connection.cursor() as cursor:
        cursor.execute("insert into caller_row (id) values (%s)", [number])


blocking = app.blocking
blocking.jobs.count()  # opens it

with transaction.atomic():
    insert(1)
    kept = blocking.enqueue(double.job(1), within=connection)
    assert blocking.jobs.count() == 0, "visible before the commit"
assert blocking.jobs.count() == 1 and rows() == 1

try:
    with transaction.atomic():
        insert(2)
        blocking.enqueue([double.job(2), double.job(3)], within=connection)
        raise LookupError
except LookupError:
    pass
assert blocking.jobs.count() == 1 and rows() == 1

with transaction.atomic():
    insert(3)
    try:
        with transaction.atomic():
            blocking.enqueue(double.job(4), within=connection)
            raise LookupError
    except LookupError:
        pass
    blocking.enqueue(double.job(5), within=connection)
assert blocking.jobs.count() == 2 and rows() == 2

blocking.enqueue([double.job(6), double.job(7)], within=connection)  # no transaction is open
assert blocking.jobs.count() == 4


app.blocking.close()
app2 = offpath.App(url, auto_start=False)
app2.task(double.fn)


async def inner():
    async with app2:
        try:
            await app2.enqueue(app2.tasks["double"].job(8), within=connection)
        except offpath.errors.WrongConnection as error:
            assert "sync_to_async" in str(error), error
        else:
            raise AssertionError("Django's connection was used from async code")
        await app2.worker().run_until_idle()
        assert await app2.jobs.count(state="succeeded") == 4

asyncio.run(inner())
print("ok")
"""


@pytest.mark.parametrize("dialect", ["postgres", "sqlite"])
def test_django(dialect: str, url_of: Callable[[str], str]) -> None:
    url = url_of(dialect)
    parts = urlsplit(url)
    arguments = (
        ("sqlite3", str(file_of(url)), "", "", "")
        if dialect == "sqlite"
        else (
            "postgresql",
            parts.path.lstrip("/"),
            parts.hostname or "",
            str(parts.port or ""),
            parts.username or "",
        )
    )
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", SCRIPT, url, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.strip() == "ok", done.stderr
