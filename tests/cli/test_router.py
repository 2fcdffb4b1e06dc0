"""``offpath router``: what runs needs the app, everything else the store alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

import offpath
from tests.cli.conftest import Run, document
from tests.servers import migrate
from tests.sqlite_files import migrated_url

ROUTERS = """

iu = app.router("iu", domain="iu", start="beginning", partitions=2)


@iu.route(type="paid", name="paid")
async def deliver(event):
    if event.payload["n"] == 3 and not (HERE / "mended").exists():
        raise ValueError("token=hunter2")
    with (HERE / "notes").open("a") as file:
        file.write("got %s\\n" % event.payload["n"])


iu.route(type="moved", deliver=offpath.events.Outbox("moved"))
app.router("empty", domain="nothing", start="now")
"""


class Service:
    """The options that name a service with routers, and what is asked of it."""

    def __init__(self, run: Run, url: str, here: Path) -> None:
        self.run, self.url, self.here = run, url, here
        self.app = ("--app", "service:app", "--url", url)

    def json(self, *args: str, app: bool = False, code: int = 0) -> Any:
        options = self.app if app else ("--url", self.url)
        done = self.run("router", *args, *options, "--json")
        assert done.exit_code == code, done.output
        return document(done)

    def open(self) -> None:
        """Everything on and live."""
        self.json("list", app=True)
        self.json("enable", "--master")
        self.json("enable", "iu")
        self.json("enable", "iu", "--route", "paid", "--live")

    def letter(self) -> str:
        """The one dead letter."""
        (one,) = self.json("letters", "iu")["items"]
        return str(one["id"])


async def _append(url: str) -> None:
    async with offpath.App(url, auto_start=False) as app:
        for number in range(6):
            kind = "other" if number == 5 else "paid"
            payload = {"n": number, "password": "hunter2"}
            await app.log.append("iu", kind, "eu", payload, key=f"k{number}")


@pytest.fixture
def service(run: Run, here: Path) -> Service:
    url = migrated_url(here / "work.db")
    with (here / "service.py").open("a", encoding="utf-8") as file:
        file.write(ROUTERS)
    asyncio.run(_append(url))
    return Service(run, url, here)


def test_routers_are_in_the_store_from_the_apps_first_use_on(service: Service) -> None:
    assert service.json("list") == {"ok": True, "items": []}
    names = [one["name"] for one in service.json("list", app=True)["items"]]
    assert names == ["empty", "iu"]
    table = service.run("router", "list", "--url", service.url).stdout.splitlines()
    assert table[2].split()[:7] == ["iu", "iu", "closed", "(both)", "2", "2", "0"]


def test_a_closed_gate_is_a_clean_nothing_that_says_which(service: Service) -> None:
    told = service.json("run", "iu", app=True)
    assert (told["ok"], told["stopped"], told["passed"]) == (True, "gate: master", 0)
    service.json("enable", "--master")
    assert service.json("run", "iu", app=True)["stopped"] == "gate: iu"
    done = service.run("router", "run", "iu", *service.app)
    assert done.stdout == "iu: empty (its gate is closed: offpath router enable iu), 0 passed\n"


def test_gates_and_routes_are_switched_from_the_store_alone(service: Service) -> None:
    service.json("list", app=True)
    assert service.json("enable", "--master") == {"ok": True, "master": True}
    assert service.json("enable", "iu")["open"] is True

    def paid(told: dict[str, Any]) -> tuple[bool, bool]:
        (route,) = (one for one in told["routes"] if one["name"] == "paid")
        return route["enabled"], route["dry_run"]

    assert paid(service.json("enable", "iu", "--route", "paid")) == (True, True)
    assert paid(service.json("enable", "iu", "--route", "paid", "--live")) == (True, False)
    assert paid(service.json("enable", "iu", "--route", "paid", "--dry-run")) == (True, True)
    assert paid(service.json("disable", "iu", "--route", "paid")) == (False, True)
    assert service.json("disable", "iu")["open"] is False
    assert service.json("disable", "--master") == {"ok": True, "master": False}
    done = service.run("router", "enable", "iu", "--url", service.url)
    assert done.stdout == "iu: its gate is open\n"
    assert "router enable --master" in done.stderr


def test_a_run_with_a_dead_letter_is_degraded(service: Service) -> None:
    service.open()
    told = service.json("run", "iu", app=True, code=3)
    assert (told["ok"], told["verdict"], told["passed"]) == (False, "degraded", 6)
    assert told["counts"] == {"sent": 4, "failed": 1, "skipped": 1}
    assert service.json("run", "iu", app=True)["verdict"] == "empty"
    assert sorted((service.here / "notes").read_text().split()) == [*"0124", *(["got"] * 4)]


def test_a_run_takes_its_limit_of_one_partition(service: Service) -> None:
    service.open()
    told = service.json("run", "iu", "--limit", "1", "--partition", "1", app=True)
    assert (told["passed"], told["more"]) == (1, True)
    assert service.run("router", "run", "iu", "--partition", "7", *service.app).exit_code == 2


def test_the_status_tells_what_is_behind(service: Service) -> None:
    service.open()
    assert service.json("status", "iu")["facts"]["oldest_lag"] > 0
    service.json("run", "iu", app=True, code=3)
    told = service.json("status", "iu")
    assert (told["open"], told["master"], told["waiting_for"]) == (True, True, [])
    assert sum(cursor["passed"] for cursor in told["cursors"]) == 6
    facts = told["facts"]
    assert (facts["head"], facts["open_letters"], facts["oldest_lag"]) == (6, 1, 0.0)
    shown = service.run("router", "status", "iu", "--url", service.url).stdout
    lines = [line.split() for line in shown.splitlines()]
    assert ["waiting", "for", "nobody"] in lines
    assert ["paid", "paid", "*", "callable:deliver", "live"] in lines
    assert [one["name"] for one in service.json("status")["items"]] == ["empty", "iu"]


def test_the_checks_are_numbered_and_one_that_fails_ends_it_with_1(service: Service) -> None:
    service.open()
    service.json("run", "iu", app=True, code=3)
    told = service.json("verify", "iu", code=1)
    assert told["ok"] is False
    assert [one["number"] for one in told["items"]] == list(range(1, len(told["items"]) + 1))
    failed = [one["name"] for one in told["items"] if one["fine"] is False]
    assert failed == ["no unresolved dead letters"]
    service.json("resolve", "iu", service.letter(), "--resolution", "by hand")
    assert service.json("verify", "iu")["ok"] is True
    done = service.run("router", "verify", "iu", *service.app)
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "all hold")


def test_only_the_app_knows_whether_a_live_route_has_a_deliverer(service: Service) -> None:
    def checked(*, app: bool) -> object:
        told = service.json("verify", "iu", "--most-lag", "3600", app=app)
        return next(one["fine"] for one in told["items"] if "deliverer" in one["name"])

    service.open()
    assert checked(app=True) is True
    assert checked(app=False) is None


def test_being_behind_fails_the_checks(service: Service) -> None:
    service.open()
    told = service.json("verify", "iu", "--most-lag", "0", code=1)
    assert [one["name"] for one in told["items"] if one["fine"] is False] == ["lag"]


def test_dead_letters_are_listed_without_and_shown_with_their_payload(service: Service) -> None:
    service.open()
    service.json("run", "iu", app=True, code=3)
    listed = service.run("router", "letters", "iu", "--url", service.url)
    assert "failed: ValueError: token=***" in listed.stdout
    assert "payload" not in service.json("letters", "iu")["items"][0]["event"]
    told = service.json("letters", "iu", service.letter(), "nope")
    assert told["items"][0]["event"]["payload"] == {"n": 3, "password": "***"}
    assert told["unknown"] == ["nope"]
    shown = service.run("router", "letters", "iu", service.letter(), "--url", service.url)
    assert '{"n":3,"password":"***"}' in shown.stdout
    assert "hunter2" not in listed.output + shown.output
    service.json("letters", "iu", "nope", code=3)


def test_letters_are_replayed_by_the_app(service: Service) -> None:
    service.open()
    service.json("run", "iu", app=True, code=3)
    letter = service.letter()
    assert service.json("redrive", "iu", letter, app=True, code=1)["counts"] == {"failed": 1}
    (service.here / "mended").touch()
    told = service.json("redrive", "iu", "--yes", app=True)
    assert told["buckets"] == {"sent": [letter]}
    told = service.json("redrive", "iu", letter, app=True, code=1)
    assert (told["buckets"], told["unchanged"]) == ({}, [letter])
    assert service.json("letters", "iu") == {"ok": True, "items": [], "next": None}
    (one,) = service.json("letters", "iu", "--all")["items"]
    assert (one["number"], one["resolution"]) == (3, "sent")


def test_a_letter_is_resolved_by_hand_once(service: Service) -> None:
    service.open()
    service.json("run", "iu", app=True, code=3)
    letter = service.letter()
    (one,) = service.json("resolve", "iu", letter, "--resolution", "paid by hand")["items"]
    assert one["resolution"] == "paid by hand"
    told = service.json("resolve", "iu", letter, "--resolution", "again", code=3)
    assert told["error"]["code"] == "letter_not_found"
    service.json("resolve", "empty", letter, "--resolution", "of another router", code=3)


def test_attempts_are_listed_in_the_logs_order(service: Service) -> None:
    service.open()
    service.json("run", "iu", app=True, code=3)
    told = service.json("attempts", "iu", "--limit", "4")
    assert [one["position"] for one in told["items"]] == [1, 2, 3, 4]
    rest = service.json("attempts", "iu", "--after", told["next"])
    assert [one["status"] for one in rest["items"]] == ["sent", "skipped"]
    (failed,) = service.json("attempts", "iu", "--status", "failed")["items"]
    assert failed["detail"] == "ValueError: token=***"
    assert failed["key"] == f"iu:paid:{failed['event']}"
    assert service.json("attempts", "iu", "--event", failed["event"])["items"] == [failed]


def test_an_open_writer_that_holds_the_log_back_is_named(
    run: Run, database_from_template: Callable[[str, Callable[[str], None]], str]
) -> None:
    url = database_from_template("schema", migrate)

    async def held() -> tuple[Any, str]:
        app = offpath.App(url, auto_start=False)
        app.router("iu", domain="iu", start="beginning")
        connection = await psycopg.AsyncConnection.connect(url)
        async with app, connection:
            await app.routers.get("iu").record()
            await app.log.append("iu", "paid", "eu", within=connection)
            await app.log.append("iu", "paid", "eu")
            done = await asyncio.to_thread(run, "router", "status", "iu", "--url", url)
            json_done = await asyncio.to_thread(
                run, "router", "status", "iu", "--url", url, "--json"
            )
            return document(json_done), done.stdout + f"pid {connection.info.backend_pid}"

    told, shown = asyncio.run(held())
    (writer,) = told["waiting_for"]
    assert shown.rpartition("pid ")[2] in writer
    assert writer in shown
    assert told["facts"]["horizon"] < told["facts"]["head"]


@pytest.mark.parametrize(
    "args",
    [
        ["status", "nope"],
        ["verify", "nope"],
        ["enable", "nope"],
        ["disable", "nope", "--route", "paid"],
        ["letters", "nope"],
        ["attempts", "nope"],
        ["resolve", "nope", "id", "--resolution", "text"],
    ],
)
def test_an_unknown_router_is_not_found(service: Service, args: list[str]) -> None:
    assert service.json(*args, code=3)["error"]["code"] == "router_not_found"
    done = service.run("router", *args, "--url", service.url)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (3, "", 1)


def test_a_router_that_the_app_lacks_is_not_found(service: Service) -> None:
    told = service.json("run", "nope", app=True, code=3)
    assert "it has empty, iu" in told["error"]["message"]


@pytest.mark.parametrize(
    "args",
    [
        ["enable"],
        ["enable", "iu", "--master"],
        ["enable", "--master", "--route", "paid"],
        ["enable", "iu", "--live"],
        ["enable", "iu", "--route", "nope"],
        ["run", "iu"],
        ["redrive", "iu", "--yes"],
        ["redrive", "iu"],
        ["attempts", "iu", "--after", "here"],
        ["resolve", "iu", "id", "--resolution", ""],
    ],
)
def test_wrong_usage_is_one_line(service: Service, args: list[str]) -> None:
    service.json("list", app=True)
    done = service.run("router", *args, "--url", service.url)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_what_was_only_logged_is_decided_again(service: Service) -> None:
    service.json("list", app=True)
    service.json("enable", "--master")
    service.json("enable", "iu")
    service.json("enable", "iu", "--route", "paid")
    assert service.json("run", "iu", app=True)["counts"] == {"dry_run": 5, "skipped": 1}
    assert service.json("redo", "iu", "--yes", app=True)["counts"] == {"unchanged": 6}
    service.json("enable", "iu", "--route", "paid", "--live")
    asked = ("redo", "iu", "--yes", "--status", "dry_run", "--since", "1h")
    told = service.json(*asked, "--limit", "2", app=True)
    assert (told["counts"], told["more"], told["stopped"]) == ({"sent": 2}, True, None)
    assert service.json(*asked, app=True, code=3)["counts"] == {"sent": 2, "failed": 1}
    done = service.run("router", *asked, *service.app)
    assert done.stdout == "iu: no event was only logged\n"
    service.json("disable", "--master")
    assert service.json(*asked, app=True)["stopped"] == "gate: master"
