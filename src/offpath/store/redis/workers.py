"""Workers: who is alive, and what they should know of the jobs they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from offpath.model.job import LeasedJob
from offpath.model.lease import Renewed, WorkerInfo, WorkerRecord
from offpath.store.redis import documents, keys, messages
from offpath.store.redis.connection import packed
from offpath.store.redis.job_rows import json_text, micros, moment, time_of
from offpath.store.redis.unit import Unit
from offpath.store.rows.instants import later
from offpath.store.rows.jobs import leased

MISSING: Final = 1.5
"""Seconds for which a worker must be missing. One whose loop is blocked as its connection is cut is
vouched for by a thread, which sees that after a second."""
LOOK_EVERY: Final = 0.5
"""Seconds between two looks for deaths, whoever makes them."""
# A server does nothing else while it answers, so no list is as long as what is kept.
_LISTED: Final = 10_000
_MOST_HELD: Final = 1_000
_REMEMBERED: Final = timedelta(hours=1)
_info = msgspec.json.Decoder(WorkerInfo).decode


async def register(
    unit: Unit, worker: WorkerInfo, lease_seconds: float, token: str, report: str | None = None
) -> None:
    """Add a worker, or renew its lease; ``token`` names the presence of its process."""
    key = keys.WORKER + worker.id
    gone = await unit.hash_field(key, "g")
    started = await unit.hash_field(key, "st")
    now, expires = micros(unit.now), micros(later(unit.now, lease_seconds))
    if gone is not None:
        unit.run("HDEL", key, "g", "rp")
    # One that comes back began anew, and stands behind those that have stayed.
    if gone is not None or started is None:
        unit.run("HSET", key, "st", str(now))
        unit.run("ZADD", keys.WORKERS, now, worker.id)
    fields = ["i", json_text(worker), "se", str(now), "x", str(expires)]
    unit.run("HSET", key, *fields, *([] if report is None else ["rp", report]))
    unit.run("ZADD", keys.LEASES, expires, worker.id)
    unit.call("@up", worker.id, token)


async def extend(
    unit: Unit,
    worker: WorkerInfo,
    *,
    lease_seconds: float,
    held: Sequence[LeasedJob],
    token: str,
    report: str | None,
) -> Renewed:
    """Renew a worker's lease, and tell it about its jobs."""
    told = await signals(unit, worker.id, held)
    await register(unit, worker, lease_seconds, token, report)
    return told


async def signals(unit: Unit, worker: str, held: Sequence[LeasedJob]) -> Renewed:
    """Tell a worker about its jobs."""
    asked = [[each.id, each.deliveries if each.worker == worker else -1] for each in held]
    expires, lost, cancelled = await unit.call_function("signals", worker, packed(asked))
    return Renewed(
        alive=bool(expires) and unit.now < moment(expires.decode()),
        cancelled=tuple(held[number - 1].id for number in cancelled),
        lost=tuple(held[number - 1].id for number in lost),
    )


async def held(unit: Unit, worker: str) -> list[LeasedJob]:
    """The jobs that a worker holds, the first begun first."""
    (found,) = await unit.read(["ZRANGE", unit.key(keys.HELD + worker), 0, _MOST_HELD - 1])
    ids = [each.decode() for each in found]
    return [leased(row.record) for row in (await unit.peek(ids)).values()]


async def deregister(unit: Unit, worker: str, *, found_dead: bool = False) -> None:
    """A worker is gone; what it holds is up for rescue. One that leaves takes its presence back."""
    key = keys.WORKER + worker
    gone, expires = await unit.hash_field(key, "g"), await unit.hash_field(key, "x")
    if expires is None or gone is not None:
        return
    now = micros(unit.now)
    # Never later than it was: a lease that had ended stays ended.
    unit.run("HSET", key, "g", str(now), "x", str(min(int(expires), now)))
    unit.run("ZREM", keys.LEASES, worker)
    if not found_dead:
        unit.run("HDEL", key, "up", "ms")


async def notice_deaths(unit: Unit) -> list[str]:
    """Expire the workers whose presence was missing by two looks, and all that they hold."""
    dead = list[str]()
    times = [str(round(seconds * 1_000_000)) for seconds in (MISSING, LOOK_EVERY)]
    for each in await unit.call_function("missing", str(micros(unit.now)), *times):
        worker = each.decode()
        # compared again as it is written: whoever has renewed meanwhile lives
        if await unit.hash_field(keys.WORKER + worker, "ms") is not None:
            await deregister(unit, worker, found_dead=True)
            dead.append(worker)
    if dead:
        await documents.free_claims(unit, frozenset(dead))
        await messages.free(unit, frozenset(dead))
    return dead


async def gone_at(unit: Unit, worker: str) -> datetime | None:
    """The time when a worker stopped or was found to hold nothing more."""
    gone = await unit.hash_field(keys.WORKER + worker, "g")
    return None if gone is None else moment(gone.decode())


def leave(unit: Unit, worker: str, gone: datetime | None) -> None:
    """A late worker holds nothing more: it is gone from now on."""
    unit.run("SREM", keys.HOLDERS, worker)
    unit.run("ZREM", keys.LEASES, worker)
    if gone is None:
        unit.call("@gone", worker, str(micros(unit.now)))


async def prune(unit: Unit, limit: int) -> None:
    """Forget workers that are gone for an hour."""
    for name, fields in (await _all(unit)).items():
        gone = fields.get(b"g")
        if gone is not None and moment(gone.decode()) + _REMEMBERED <= unit.now and limit > 0:
            limit -= 1
            # One that has come back meanwhile must not be forgotten.
            unit.check(keys.WORKER + name, "g", gone.decode())
            unit.run("DEL", keys.WORKER + name)
            unit.run("ZREM", keys.WORKERS, name)


async def workers(unit: Unit) -> list[WorkerRecord]:
    """Every worker, oldest first."""
    found = await _all(unit)
    running = await unit.read(*(["ZCARD", unit.key(keys.HELD + name)] for name in found))
    return [
        _record(fields, number, unit.now)
        for fields, number in zip(found.values(), running, strict=True)
    ]


async def _all(unit: Unit) -> dict[str, Mapping[bytes, bytes]]:
    (names,) = await unit.read(["ZRANGE", unit.key(keys.WORKERS), 0, _LISTED - 1])
    found: list[Any] = await unit.read(
        *(["HGETALL", unit.key(keys.WORKER + name.decode())] for name in names)
    )
    return {
        name.decode(): fields for name, fields in zip(names, found, strict=True) if b"i" in fields
    }


def _record(fields: Mapping[bytes, bytes], running: int, now: datetime) -> WorkerRecord:
    expires_at = moment(fields[b"x"].decode())
    report, gone = fields.get(b"rp"), fields.get(b"g")
    return WorkerRecord(
        info=_info(fields[b"i"]),
        started_at=moment(fields[b"st"].decode()),
        seen_at=moment(fields[b"se"].decode()),
        expires_at=expires_at,
        late=expires_at <= now,
        running=running,
        presence=b"up" in fields,
        report=None if report is None else report.decode(),
        gone_at=None if gone is None else time_of(gone.decode()),
    )
