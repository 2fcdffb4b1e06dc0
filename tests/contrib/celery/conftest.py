"""A Celery app of the shim's on memory, current while a test runs; a Redis for Celery itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import offpath
from offpath.contrib.celery import Celery, app_face, application
from tests.brokers import Broker
from tests.conftest import missing_server
from tests.servers import NoServer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Celery]:
    monkeypatch.setattr(application, "_SHARED", [])
    monkeypatch.setattr(app_face, "_CURRENT", [])
    jobs = offpath.App("memory://", auto_start=False)
    yield Celery("shop", offpath=jobs)
    jobs.blocking.close()


@pytest.fixture
def redis() -> Iterator[str]:
    broker = Broker("redis")
    try:
        broker.start()
        yield broker.url
    except NoServer as reason:
        missing_server(str(reason))
    finally:
        broker.destroy()
