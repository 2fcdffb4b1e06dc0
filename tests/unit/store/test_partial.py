"""A backend of some profiles: what it lacks is refused where it is defined."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

import offpath
from offpath.economy import Economy
from offpath.errors import CapabilityMissing, ConfigurationError
from offpath.model.effects import Effects
from offpath.store.absence import missing
from offpath.store.backends import make_store, scheme_of
from offpath.store.capabilities import ALL_PROFILES, Capabilities, Durability, Profile
from offpath.store.memory import MemoryStore
from offpath.store.offered import FEATURES, MEANINGS, OFFERED, SEES_DEATHS
from offpath.store.partial import PartialStore, refuse_absent
from offpath.store.protocol import Store
from offpath.store.redis.address import parsed
from offpath.store.redis.capabilities import CAPABILITIES
from tests.conformance.builders import new_job


class WithoutLimits(MemoryStore):
    @property
    def capabilities(self) -> Capabilities:
        whole = super().capabilities
        return replace(whole, name="toy", profiles=whole.profiles - {Profile.LIMITS, Profile.LOG})


def test_every_method_of_a_whole_profile_is_refused_or_finds_nothing() -> None:
    names = {name for name in dir(Store) if not name.startswith("_")}
    added = {name for name in dir(PartialStore) if not name.startswith("_")} - names
    assert added == {"renew"}  # the one step behind register and extend
    assert set(FEATURES) == set(Profile) == ALL_PROFILES


def test_each_backend_offers_what_the_table_says(tmp_path: Path) -> None:
    urls = {
        "memory": "memory://",
        "sqlite": f"sqlite:///{tmp_path}/jobs.db",
        "postgres": "postgresql://localhost/nobody",
        "redis": "redis://localhost",
    }
    assert set(urls) == set(OFFERED)
    declared = {name: make_store(url).capabilities for name, url in urls.items()}
    assert {name: each.profiles for name, each in declared.items()} == dict(OFFERED)
    assert {name for name, each in declared.items() if each.presence} == SEES_DEATHS
    assert set(MEANINGS) == set(Durability)


async def test_a_task_that_needs_what_is_missing_is_refused_when_the_app_opens() -> None:
    app = offpath.App(store=WithoutLimits(), auto_start=False)

    @app.task(limit=offpath.Limit(key="api", max_running=2))
    async def call() -> None: ...

    with pytest.raises(CapabilityMissing, match=r"task 'call': toy does not offer limits") as told:
        await app.open()
    assert told.value.profile == "limits"


async def test_a_router_that_needs_what_is_missing_is_refused_when_the_app_opens() -> None:
    app = offpath.App(store=WithoutLimits(), auto_start=False)

    @app.router("orders", domain="shop", start="now").route(type="placed", name="placed")
    async def placed(event: object) -> None: ...

    with pytest.raises(CapabilityMissing, match="router 'orders': toy does not offer the event"):
        await app.open()


class Bare(MemoryStore):
    """Memory that declares jobs alone."""

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, name="bare", profiles=frozenset({Profile.CORE}))


def bare_app() -> offpath.App:
    return offpath.App(store=Bare(), auto_start=False)


async def test_a_schedule_that_needs_what_is_missing_is_refused_when_the_app_opens() -> None:
    app = bare_app()

    @app.task
    async def report() -> None: ...

    app.schedule("nightly", report.job(), cron="0 3 * * *", zone="UTC")
    with pytest.raises(CapabilityMissing, match="schedule 'nightly': bare does not offer sched"):
        await app.open()


async def test_a_stream_that_needs_what_is_missing_is_refused_when_the_app_opens() -> None:
    app = bare_app()

    @app.outbox("mails")
    async def send(event: object) -> None: ...

    with pytest.raises(CapabilityMissing, match="outbox stream 'mails': bare does not offer"):
        await app.open()


async def test_a_source_that_needs_what_is_missing_is_refused_when_the_app_opens() -> None:
    app = bare_app()

    @app.inbox("stripe")
    async def apply(event: object) -> None: ...

    with pytest.raises(CapabilityMissing, match="inbox source 'stripe': bare does not offer"):
        await app.open()


async def test_an_economy_that_needs_what_is_missing_is_refused_when_the_app_opens() -> None:
    app = bare_app()
    Economy(app)
    with pytest.raises(CapabilityMissing, match="an economy: bare does not offer the ledger"):
        await app.open()


async def test_a_worker_whose_order_is_missing_is_refused_when_it_is_made() -> None:
    async with bare_app() as app:
        with pytest.raises(CapabilityMissing, match="dispatch='balanced': bare does not offer"):
            app.worker(dispatch="balanced")
        with pytest.raises(CapabilityMissing, match="dispatch='age'"):
            app.worker(dispatch={"mail": "age"})


async def test_loops_of_what_is_missing_do_not_start() -> None:
    async with offpath.App(auto_start=False) as app, app.worker() as worker:
        whole = {loop.name for loop in worker.loops()}
    async with bare_app() as app, app.worker() as worker:
        bare = {loop.name for loop in worker.loops()}
    assert whole - bare == {"actions", "admission", "schedules", "stats"}


def test_effects_of_what_is_missing_are_refused_with_the_backends_that_have_it() -> None:
    with pytest.raises(CapabilityMissing, match="memory, sqlite or postgres"):
        refuse_absent(CAPABILITIES, Effects(jobs=(replace(new_job(), gate="g"),)))
    assert "sqlite or postgres" in str(missing(CAPABILITIES, Profile.WITHIN))


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("redis://h/0?wait=x", "wait="),
        ("redis://h/0?prefix=", "prefix="),
        ("redis://h/0?durability=ever", "durability="),
        ("redis://h/0?speed=1", "unknown in a Redis URL: speed"),
        ("http://h", "not the URL"),
    ],
)
def test_a_wrong_address_is_told(url: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        parsed(url)


def test_an_address_has_our_parts_and_those_of_the_driver() -> None:
    found = parsed("valkeys://u:p@h:1/2?prefix=a&wait=1&durability=process")
    assert (found.prefix, found.wait, found.durability) == ("a", 1, Durability.PROCESS)
    assert found.url == "rediss://u:p@h:1/2"


def test_a_url_names_its_backend() -> None:
    assert scheme_of("valkey://h/0") == "redis"
    assert make_store("redis://h/0").capabilities.name == "redis"
    with pytest.raises(ConfigurationError, match="does not work on"):
        scheme_of("mongodb://h")
