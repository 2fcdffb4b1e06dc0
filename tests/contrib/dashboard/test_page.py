"""The files of the page, as processes: each mounts the dashboard beside the service's own page."""

from __future__ import annotations

import http.client
import json
import re
import signal
from typing import TYPE_CHECKING

import pytest

from tests.contrib.processes import Processes, write_files
from tests.integration.polling import eventually
from tests.servers import free_port
from tests.sqlite_files import migrated_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "a token of the tests, long enough"
UVICORN, GUNICORN = ("uvicorn", "--port"), ("gunicorn", "--workers=4", "--threads=4", "--bind")
ASGI_GUNICORN = ("gunicorn", "--workers=4", "--worker-class=asgi", "--bind")
SERVERS = (
    ("with_fastapi", UVICORN),
    ("with_fastapi", ("uvicorn", "--workers=4", "--port")),
    ("with_fastapi", ASGI_GUNICORN),
    ("with_litestar", UVICORN),
    ("with_django", UVICORN),
    ("with_django_wsgi", GUNICORN),
    ("with_flask", GUNICORN),
)
_TRIES = 5
PAGES = ("", "jobs", "dead", "groups", "queues", "tasks", "config", "sweeps", "api/v1/overview")


class Visitor:
    """Somebody with one cookie, over a new connection each time."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.cookie = ""

    def ask(
        self, method: str, path: str, body: str = "", kind: str = "application/json"
    ) -> tuple[int, str, dict[str, str]]:
        """The status, the body and the headers of an answer.

        A read may take longer than its 2 s on a busy machine; it is asked again then.
        """
        found = self._asked(method, path, body, kind)
        for _ in range(_TRIES):
            if method != "GET" or "TOOK_TOO_LONG" not in found[1]:
                break
            found = self._asked(method, path, body, kind)
        return found

    def _asked(
        self, method: str, path: str, body: str, kind: str
    ) -> tuple[int, str, dict[str, str]]:
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            headers = {"cookie": self.cookie, "content-type": kind, "accept": "text/html",
                       "sec-fetch-site": "same-origin"}  # fmt: skip
            line.request(method, path, body, headers)
            answer = line.getresponse()
            told = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, answer.read().decode(), told
        finally:
            line.close()

    def is_served(self) -> bool:
        """True once the service answers its own page."""
        try:
            return self.ask("GET", "/")[0] == 200
        except OSError:
            return False

    def sign_in(self) -> None:
        """Sign in by the page that takes a token."""
        body = f"token={TOKEN.replace(' ', '+')}&next=%2F"
        status, _, told = self.ask(
            "POST", "/jobs/sign-in", body, "application/x-www-form-urlencoded"
        )
        assert (status, told["location"]) == (303, "/jobs/")
        self.cookie = told["set-cookie"].partition(";")[0]


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """The page's folder, with a database."""
    write_files("dashboard.md", tmp_path)
    url = migrated_url(tmp_path / "shop.db")
    made = Processes(tmp_path, {"DATABASE_URL": url, "DASHBOARD_TOKEN": TOKEN})
    yield made
    made.destroy()


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("module", "command"), SERVERS)
async def test_each_framework_mounts_it(
    processes: Processes, module: str, command: tuple[str, ...]
) -> None:
    port = free_port()
    server, *options = command
    place = str(port) if server == "uvicorn" else f"127.0.0.1:{port}"
    one = processes.start("-m", server, *options, place, f"{module}:service")
    visitor = Visitor(port)
    await eventually(visitor.is_served, within=60.0, what=f"{module} is served")
    assert "the shop" in visitor.ask("GET", "/")[1]
    status, _, told = visitor.ask("GET", "/jobs/jobs?state=dead")
    assert (status, told["location"]) == (303, "/jobs/sign-in?next=%2Fjobs%3Fstate%3Ddead")
    visitor.sign_in()
    for page in PAGES * 2:  # so that several processes are met
        status, text, _ = visitor.ask("GET", f"/jobs/{page}")
        assert (page, status) == (page, 200), processes.output()
        links = re.findall(r'(?:href|src|action)="(/[^"]*)"', text)
        assert [link for link in links if not link.startswith("/jobs/")] == []
    assert "Add two numbers." in visitor.ask("GET", "/jobs/tasks/add")[1]
    body = json.dumps({"verb": "queue.pause", "target": {"name": "mail"}, "note": "why"})
    status, text, _ = visitor.ask("POST", "/jobs/api/v1/actions", body)
    assert (status, json.loads(text)["state"]) == (200, "done")
    assert "mail" in visitor.ask("GET", "/jobs/queues")[1]
    one.send_signal(signal.SIGTERM)
    assert one.wait(30) in {0, -signal.SIGTERM}, processes.output()
