"""The doors: every route times every credential; forgery, hosts, bounds, guesses, headers."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

import offpath
from offpath.economy.console.readings import READINGS as MONEY_READINGS
from offpath.errors import InvalidArgument
from offpath.web import auth, dashboard, under
from offpath.web.console.application import API
from offpath.web.console.doors import HEADERS, MOST_AT_ONCE
from offpath.web.console.readings import READINGS
from offpath.web.console.settlement_readings import SETTLEMENT_READINGS
from tests.unit.web.dashboard.rig import BEARER, TOKEN, Site, site_of

OPEN = {"/healthz": 200, "/readyz": 200, "/sign-in": 200, "/assets/console.css": 200}
ALL = (*READINGS, *MONEY_READINGS, *SETTLEMENT_READINGS)
"""The readings of an app with an economy: the doors are tried with routes of money, too."""
CLOSED = sorted(
    {
        *(one.page or one.path for one in ALL if one.name != "faults"),
        *(API + one.path for one in ALL),
        f"{API}/openapi.json",
        f"{API}/me",
        "/guides/{page}",
        "/runbooks/{page}",
        "/nowhere",
        "/act",
        "/actions/{id}/stop",
        f"{API}/actions/preview",
        f"{API}/actions/{{id}}/stop",
    }
)
WRONG = {
    "none": {},
    "wrong": {"authorization": "Bearer another one that is long"},
    "empty": {"authorization": "Bearer "},
    "huge": {"authorization": "Bearer " + "x" * 1_048_576},
    "other scheme": {
        "authorization": f"Basic {base64.b64encode(b'ann:' + TOKEN.encode()).decode()}"
    },
    "forged cookie": {"cookie": "offpath_dashboard=ImFubiI.aaaaaa.bbbbbbbbbb"},
}


def _filled(path: str) -> str:
    return re.sub(r"{\w+}", "x", path)


async def test_the_table_has_every_route(house: offpath.App) -> None:
    routes = {one.path.replace(":path", "") for one in site_of(house).app._inner.routes}
    assert routes - {*OPEN, *CLOSED, "/sign-out", "/assets/{name}"} == set()
    money = {one.path for one in (*MONEY_READINGS, *SETTLEMENT_READINGS)}
    assert {*money, *(API + one for one in money)} <= routes


@pytest.mark.parametrize("credentials", WRONG)
async def test_nothing_answers_without_credentials(house: offpath.App, credentials: str) -> None:
    site = site_of(house)
    headers = {"accept": "application/json", **WRONG[credentials]}
    for at, path in enumerate(CLOSED):
        answer = await site.ask("GET", _filled(path), headers=headers, client=f"10.0.0.{at}")
        assert (path, answer.code) == (path, 401)
        assert answer.document["code"] == "AUTH.UNAUTHORIZED"


async def test_what_is_open_tells_nothing(site: Site) -> None:
    for path, code in OPEN.items():
        answer = await site.get(path, headers={})
        assert (path, answer.code) == (path, code)
        assert "send_mail" not in answer.text


async def test_a_stranger_is_not_told_which_database_is_not_ready(tmp_path: Path) -> None:
    site = site_of(f"sqlite:///{tmp_path}/of-the-shop.db")
    answer = await site.get("/readyz", headers={"accept": "application/json"})
    assert (answer.code, answer.document["code"]) == (503, "SCHEMA_MISSING")
    assert "of-the-shop" not in answer.text
    assert "of-the-shop" in (await site.get(f"{API}/jobs")).text


async def test_a_page_leads_to_the_sign_in_page_and_back(site: Site) -> None:
    answer = await site.get("/jobs?state=dead", headers={"accept": "text/html"})
    assert answer.code == 303
    assert answer.headers["location"] == "/sign-in?next=%2Fjobs%3Fstate%3Ddead"


async def _signed_in(site: Site, body: bytes) -> tuple[int, str, str]:
    headers = {"sec-fetch-site": "same-origin"}
    answer = await site.ask("POST", "/sign-in", headers=headers, body=body)
    return answer.code, answer.headers.get("location", ""), answer.headers.get("set-cookie", "")


async def test_a_token_becomes_a_cookie_that_signs_in(site: Site) -> None:
    token = TOKEN.replace(" ", "+").encode()
    code, location, cookie = await _signed_in(site, b"next=/jobs&token=" + token)
    assert (code, location) == (303, "/jobs")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    again = await site.get("/jobs", headers={"cookie": cookie.split(";")[0]})
    assert again.code == 200


async def test_a_cookie_is_good_in_another_process_with_the_same_token(app: offpath.App) -> None:
    token = TOKEN.replace(" ", "+").encode()
    _, _, cookie = await _signed_in(site_of(app), b"token=" + token)
    headers = {"cookie": cookie.split(";")[0], "accept": "application/json"}
    assert (await site_of(app).get("/jobs", headers=headers)).code == 200
    others = Site(dashboard(app, auth=auth.token("another token, as long")))
    assert (await others.get("/jobs", headers=headers)).code == 401


async def test_a_copy_of_a_cookie_is_good_no_more_once_signed_out(site: Site) -> None:
    _, _, cookie = await _signed_in(site, b"token=" + TOKEN.replace(" ", "+").encode())
    headers = {"cookie": cookie.split(";")[0], "accept": "application/json"}
    assert (await site.get("/jobs", headers=headers)).code == 200
    answer = await site.ask(
        "POST", "/sign-out", headers={**headers, "sec-fetch-site": "same-origin"}
    )
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert (await site.get("/jobs", headers=headers)).code == 401


@pytest.mark.parametrize("place", ["//evil.example/", "https://evil.example/", "/\\evil", "x"])
async def test_signing_in_leads_nowhere_else(site: Site, place: str) -> None:
    token = TOKEN.replace(" ", "+")
    _, location, _ = await _signed_in(site, f"next={place}&token={token}".encode())
    assert location == "/"


async def test_over_https_a_cookie_stays_there(site: Site) -> None:
    body = f"token={TOKEN.replace(' ', '+')}".encode()
    answer = await site.ask(
        "POST", "/sign-in", headers={"sec-fetch-site": "same-origin"}, body=body, scheme="https"
    )
    assert "Secure" in answer.headers["set-cookie"]


async def test_guesses_are_few(site: Site) -> None:
    wrong = {"authorization": "Bearer not this one, surely", "accept": "application/json"}
    codes = [(await site.get("/jobs", headers=wrong)).code for _ in range(6)]
    assert codes == [401] * 5 + [429]
    told = await site.get("/jobs", headers={**wrong, **BEARER})
    assert (told.code, told.headers["retry-after"]) == (429, "60")
    elsewhere = await site.ask("GET", "/jobs", headers=BEARER, client="10.0.0.10")
    assert elsewhere.code == 200


@pytest.mark.parametrize(
    ("addresses", "other"),
    [
        ([f"2001:db8:1:2:{one}::7" for one in range(1, 7)], "2001:db8:1:3::7"),
        (["10.0.0.9", *["::ffff:10.0.0.9"] * 5], "::ffff:10.0.0.10"),
    ],
)
async def test_one_machine_has_no_more_guesses_by_more_addresses(
    site: Site, addresses: list[str], other: str
) -> None:
    wrong = {"authorization": "Bearer not this one, surely", "accept": "application/json"}
    codes = [(await site.ask("GET", "/jobs", headers=wrong, client=a)).code for a in addresses]
    assert codes == [401] * 5 + [429]
    assert (await site.ask("GET", "/jobs", headers=wrong, client=other)).code == 401


FOREIGN = {
    "cross-site": ({"sec-fetch-site": "cross-site"}, "ORIGIN.FOREIGN"),
    "same-site": ({"sec-fetch-site": "same-site"}, "ORIGIN.FOREIGN"),
    "none": ({"sec-fetch-site": "none"}, "ORIGIN.FOREIGN"),
    "another host": ({"origin": "http://evil.example"}, "ORIGIN.FOREIGN"),
    "another port": ({"origin": "http://localhost:81"}, "ORIGIN.FOREIGN"),
    "no origin at all": ({"origin": "null"}, "ORIGIN.FOREIGN"),
    "nothing said": ({}, "ORIGIN.UNKNOWN"),
}


@pytest.mark.parametrize("case", FOREIGN)
@pytest.mark.parametrize("path", ["/sign-in", "/sign-out", "/jobs"])
async def test_what_another_page_has_a_browser_send_is_refused(
    site: Site, case: str, path: str
) -> None:
    headers, code = FOREIGN[case]
    answer = await site.ask("POST", path, headers={"accept": "application/json", **headers})
    assert (answer.code, answer.document["code"]) == (403, code)
    assert "set-cookie" not in answer.headers


async def test_a_program_may_post(site: Site) -> None:
    answer = await site.ask("POST", "/sign-out", headers=BEARER)
    assert answer.code == 303


async def test_each_answer_has_its_headers(site: Site) -> None:
    for path, headers in (("/", BEARER), ("/nowhere", BEARER), ("/jobs", {}), ("/healthz", {})):
        answer = await site.get(path, headers=headers)
        assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
        assert answer.headers["cache-control"] == "no-store"
    kept = await site.get("/assets/console.css")
    assert "immutable" in kept.headers["cache-control"]


async def test_a_query_has_a_bound(site: Site) -> None:
    answer = await site.get("/api/v1/jobs?task=" + "x" * 9_000)
    assert (answer.code, answer.document["code"]) == (414, "QUERY_TOO_LONG")


async def test_a_body_has_a_bound(site: Site) -> None:
    headers = {"sec-fetch-site": "same-origin", "accept": "application/json"}
    answer = await site.ask("POST", "/sign-in", headers=headers, body=b"token=" + b"x" * 70_000)
    assert answer.code == 413


async def test_too_many_at_once_are_told_to_come_again(site: Site) -> None:
    site.app._now = MOST_AT_ONCE
    answer = await site.get("/api/v1/jobs")
    assert (answer.code, answer.headers["retry-after"]) == (503, "1")
    assert (await site.get("/healthz")).code == 200


async def test_an_unchanged_answer_is_not_sent_again(site: Site) -> None:
    first = await site.get("/api/v1/jobs")
    again = await site.get(
        "/api/v1/jobs", headers={**BEARER, "if-none-match": first.headers["etag"]}
    )
    assert (again.code, again.body) == (304, b"")


# -- hosts -----------------------------------------------------------------------------------------


async def test_a_name_that_is_not_listed_is_refused(app: offpath.App) -> None:
    site = site_of(app, allow_hosts=["jobs.example.org"])
    codes = {"jobs.example.org:8443": 200, "localhost:1": 200, "evil.example": 403,
             "evil.example@localhost": 403, "evil.example@jobs.example.org": 403,
             "localhost.evil.example": 403, "0.0.0.0": 403}  # fmt: skip
    for host, code in codes.items():
        assert (await site.get("/jobs", headers={**BEARER, "host": host})).code == code


async def test_without_auth_only_this_machine_is_answered(app: offpath.App) -> None:
    site = Site(dashboard(app, auth=False))
    here: dict[str, Any] = {"client": "127.0.0.1"}
    local, rebound = {"host": "127.0.0.1:8787"}, {"host": "rebound.example"}
    assert (await site.ask("GET", "/jobs", headers=local, **here)).code == 200
    assert (await site.ask("GET", "/jobs", headers=rebound, **here)).code == 403


@pytest.mark.parametrize(
    ("client", "code"),
    [("::1", 200), ("::ffff:127.0.0.1", 200), ("testclient", 200),
     ("10.0.0.9", 403), ("2001:db8::7", 403), ("::ffff:10.0.0.9", 403)],
)  # fmt: skip
async def test_without_auth_nobody_reaches_it_from_elsewhere_by_a_name_of_this_machine(
    app: offpath.App, client: str, code: int
) -> None:
    site = Site(dashboard(app, auth=False))
    headers = {"host": "localhost", "accept": "application/json"}
    answer = await site.ask("GET", f"{API}/jobs", headers=headers, client=client)
    assert answer.code == code
    assert code == 200 or answer.document["code"] == "PEER.FOREIGN"


async def test_nothing_is_read_without_the_right_to_read(house: offpath.App) -> None:
    rights = frozenset(auth.Can) - {auth.Can.READ}
    site = Site(dashboard(house, auth=auth.token({"ann": TOKEN}, can=rights)))
    headers = {**BEARER, "accept": "application/json"}
    for path in CLOSED:
        for method in ("GET", "HEAD"):
            answer = await site.ask(method, _filled(path), headers=headers)
            assert (path, answer.code) == (path, 403)
            assert answer.document["code"] == "RIGHT.MISSING"


def test_auth_has_no_default(app: offpath.App) -> None:
    with pytest.raises(TypeError, match="auth"):
        dashboard(app)  # type: ignore[call-arg]
    with pytest.raises(InvalidArgument, match="who may look"):
        dashboard(app, auth="a token")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("DELETE", "/jobs", "GET, HEAD"),
        ("PUT", f"{API}/actions", "GET, HEAD, POST"),
        ("GET", f"{API}/actions/preview", "POST"),
        ("POST", "/sign-out", None),
    ],
)
async def test_a_refused_method_is_answered_with_those_there_are(
    site: Site, method: str, path: str, allow: str | None
) -> None:
    answer = await site.ask(method, path, headers={**BEARER, "accept": "application/json"})
    assert answer.headers.get("allow") == allow
    if allow is not None:
        assert (answer.code, answer.document["code"]) == (405, "METHOD.NOT_ALLOWED")


@pytest.mark.parametrize(
    ("path", "raw"),
    [
        ("/dead/", b"/jobs/dead"),
        ("/jobs/dead", b"/jobs/dead"),
        ("/dead", b""),
        ("/dead", b"/dead"),
    ],
)
async def test_a_prefix_is_put_back_that_a_router_took(path: str, raw: bytes) -> None:
    seen: list[tuple[str, str]] = []

    async def app(scope: Any, _: Any, __: Any) -> None:
        seen.append((scope["root_path"], scope["path"]))

    scope: Any = {"type": "http", "path": path, "raw_path": raw, "root_path": ""}
    await under(app, "/jobs/")(scope, None, None)  # type: ignore[arg-type]
    assert seen == [("/jobs", "/jobs/dead")]


@pytest.mark.parametrize("text", ["https://ann:hunter2@h/x", "password=hunter2"])
async def test_a_refusal_does_not_repeat_a_secret(site: Site, text: str) -> None:
    asked = quote(text, safe="")
    for path in (f"{API}/jobs?limit={asked}", f"/jobs?group={asked}", f"/act?verb={asked}"):
        answer = await site.get(path)
        assert (path, answer.code) == (path, 400)
        assert "hunter2" not in answer.text
    headers = {**BEARER, "content-type": "application/json"}
    for body in ({"verb": text, "target": {}}, {"verb": "queue.pause", "target": {text: 1}}):
        answer = await site.ask(
            "POST", f"{API}/actions", headers=headers, body=msgspec.json.encode(body)
        )
        assert answer.code == 400
        assert "hunter2" not in answer.text
