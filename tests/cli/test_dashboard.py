"""``offpath dashboard``: where it listens, who gets in, how it ends."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from email.message import Message
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.cli.conftest import Processes, Run, until

TOKEN = "a token that is long enough"
_AGAIN = 20
BEARER = {"Authorization": f"Bearer {TOKEN}"}


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Follow nothing: where it leads is what is looked at."""


def ask(
    url: str, body: str | None = None, headers: dict[str, str] | None = None
) -> tuple[int, Message, str]:
    """One request; made again while the answer says so, as on a machine that is busy."""
    data = None if body is None else body.encode()
    given = {"Sec-Fetch-Site": "same-origin", **(headers or {})}
    found = _once(urllib.request.Request(url, data, given))
    for _ in range(_AGAIN):
        if found[0] != 503 or "retry-after" not in found[1]:
            break
        found = _once(urllib.request.Request(url, data, given))
    return found


def _once(request: urllib.request.Request) -> tuple[int, Message, str]:
    try:
        with urllib.request.build_opener(_Stay).open(request, timeout=30) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A SQLite store: what differs by database is tested elsewhere."""
    return f"sqlite:///{tmp_path / 'work.db'}"


def _place(lines: list[str]) -> str:
    found = re.search(r"http://\S+", "".join(lines))
    assert found
    return found[0]


def test_the_printed_link_signs_in_once_and_a_signal_ends_it(
    migrated: str, processes: Processes
) -> None:
    process = processes.start("dashboard", "--url", migrated, "--port", "0")
    link = _place(until(process, "signs in once"))
    parts = urlsplit(link)
    base = f"http://{parts.netloc}"
    assert parts.hostname == "127.0.0.1"
    assert ask(f"{base}/jobs")[0] == 303
    code = parse_qs(parts.query)["code"][0]
    assert ask(link)[0] == 200  # looking at the link changes nothing
    status, headers, _ = ask(f"{base}/sign-in", f"code={code}&next=/jobs")
    assert (status, headers["location"]) == (303, "/jobs")
    cookie = {"Cookie": headers["set-cookie"].split(";")[0]}
    assert ask(f"{base}/jobs", headers=cookie)[0] == 200
    assert ask(f"{base}/sign-in", f"code={code}")[0] == 403
    assert ask(f"{base}/jobs", headers={**cookie, "Host": "rebound.example"})[0] == 403
    process.terminate()
    assert process.wait(timeout=30) == 0


def test_a_cookie_outlives_a_restart_with_the_same_token(
    migrated: str, processes: Processes, here: Path
) -> None:
    (here / "token").write_text(f"{TOKEN}\n")
    given = ("dashboard", "--url", migrated, "--port", "0", "--token-file", "token")
    cookie: dict[str, str] = {}
    for _ in range(2):
        process = processes.start(*given)
        base = _place(until(process, "with the token")).rstrip("/")
        if not cookie:
            _, headers, _ = ask(f"{base}/sign-in", f"token={TOKEN.replace(' ', '+')}")
            cookie = {"Cookie": headers["set-cookie"].split(";")[0]}
        assert ask(f"{base}/jobs", headers=cookie)[0] == 200
        assert ask(f"{base}/api/v1/me", headers=BEARER)[0] == 200
        process.kill()
        process.wait()


def test_a_prefix_is_known_whether_a_proxy_strips_it_or_not(
    migrated: str, processes: Processes, here: Path
) -> None:
    (here / "token").write_text(TOKEN)
    process = processes.start(
        "dashboard", "--url", migrated, "--port", "0", "--token-file", "token", "--prefix", "/ops"
    )
    base = _place(until(process, "with the token"))
    assert base.endswith("/ops/")
    for path in ("/ops/jobs", "/jobs"):
        status, _, text = ask(f"http://{urlsplit(base).netloc}{path}", headers=BEARER)
        assert status == 200
        assert 'href="/ops/queues"' in text


def test_names_that_are_allowed_are_answered_beside_this_machines_own(
    migrated: str, processes: Processes, here: Path
) -> None:
    (here / "token").write_text(TOKEN)
    given = ("dashboard", "--url", migrated, "--port", "0", "--token-file", "token")
    allowed = ("--allow-host", "jobs.example.org", "--allow-host", "Ops.example.org")
    base = _place(until(processes.start(*given, *allowed), "with the token"))
    codes = {
        host: ask(f"{base}api/v1/me", headers={**BEARER, "Host": host})[0]
        for host in ("jobs.example.org", "ops.example.org:8787", "localhost", "rebound.example")
    }
    assert list(codes.values()) == [200, 200, 200, 403], codes


@pytest.mark.parametrize(("proxies", "last"), [(None, 429), ("127.0.0.1", 401)])
def test_a_caller_who_names_other_addresses_has_no_more_guesses(
    migrated: str,
    processes: Processes,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    proxies: str | None,
    last: int,
) -> None:
    """But where a proxy is said to be there, whose word counts."""
    if proxies is not None:
        monkeypatch.setenv("FORWARDED_ALLOW_IPS", proxies)
    (here / "token").write_text(TOKEN)
    given = ("dashboard", "--url", migrated, "--port", "0", "--token-file", "token")
    base = _place(until(processes.start(*given), "with the token"))
    codes = [
        ask(
            f"{base}api/v1/me",
            headers={"Authorization": "Bearer wrong", "X-Forwarded-For": f"10.0.0.{one}"},
        )[0]
        for one in range(6)
    ]
    assert codes == [401] * 5 + [last]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.org"])
def test_others_are_not_let_in_without_a_token(run: Run, url: str, host: str) -> None:
    result = run("dashboard", "--url", url, "--host", host)
    assert result.exit_code == 2
    assert "--token-file" in result.output


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--name", "shop"), "NAME=URL"),
        (("--name", "shop=sqlite:///a.db", "--url", "sqlite:///b.db"), "leave --app and --url out"),
        (("--url", "sqlite:///a.db", "--token-file", "nowhere"), "cannot read nowhere"),
        (("--name", "a/b=sqlite:///a.db"), "name of a database"),
        (("--url", "sqlite:///a.db", "--accent", "pink"), "accent is one of"),
        (("--url", "sqlite:///a.db", "--port", "99999"), "not in the range"),
    ],
)
def test_bad_input_is_told_before_anything_listens(
    run: Run, given: tuple[str, ...], told: str
) -> None:
    result = run("dashboard", *given)
    assert result.exit_code in {1, 2}
    assert told in " ".join(result.output.split())


def test_a_store_that_nobody_migrated_is_not_made(
    url: str, processes: Processes, here: Path
) -> None:
    (here / "token").write_text(TOKEN)
    process = processes.start("dashboard", "--url", url, "--port", "0", "--token-file", "token")
    base = _place(until(process, "with the token")).rstrip("/")
    status, _, text = ask(f"{base}/jobs", headers={**BEARER, "Accept": "text/html"})
    assert status == 503
    assert "offpath migrate" in text
