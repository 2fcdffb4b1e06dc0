"""Small rows that are read and written whole: endpoints, declarations, findings, claims, pauses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from offpath.model.declaration import KEEP, LIVE, Declaration
from offpath.model.endpoint import Endpoint, EndpointNote, EndpointState
from offpath.model.finding import FindingRecord
from offpath.model.lease import worker_of
from offpath.model.post import PostRecord, newest_posts, read_posts, written_posts
from offpath.store.hints import Hint
from offpath.store.redis import keys
from offpath.store.redis.job_rows import json_text, micros, moment
from offpath.store.redis.unit import Unit
from offpath.store.rows.endpoints import noted, put_over, switched
from offpath.store.rows.instants import maybe_later

# A server does nothing else while it answers, so no list is as long as what is kept.
_LISTED: Final = 10_000
_MOST_FINDINGS: Final = 1_000
# What is beyond them ends by its own time.
_MOST_FREED: Final = 1_000
_endpoint = msgspec.json.Decoder(Endpoint).decode
_declaration = msgspec.json.Decoder(Declaration).decode
_finding = msgspec.json.Decoder(FindingRecord).decode


# -- endpoints -----------------------------------------------------------------------------------


async def _endpoint_of(unit: Unit, name: str) -> Endpoint | None:
    found = await unit.hash_field(keys.ENDPOINTS, name)
    return None if found is None else _endpoint(found)


def _keep_endpoint(unit: Unit, endpoint: Endpoint) -> None:
    unit.run("HSET", keys.ENDPOINTS, endpoint.name, json_text(endpoint))


async def put_endpoint(unit: Unit, endpoint: Endpoint) -> bool:
    """Add one, or change where and what is posted; True when it is new."""
    known = await _endpoint_of(unit, endpoint.name)
    _keep_endpoint(unit, put_over(known, endpoint, unit.now))
    return known is None


async def endpoints(unit: Unit) -> list[Endpoint]:
    """Every endpoint, by name."""
    (found,) = await unit.read(["HVALS", unit.key(keys.ENDPOINTS)])
    return sorted(map(_endpoint, found), key=lambda each: each.name)[:_LISTED]


async def set_endpoint(unit: Unit, name: str, state: EndpointState, reason: str | None) -> bool:
    """Enable, pause or disable one; False: unknown."""
    known = await _endpoint_of(unit, name)
    if known is None:
        return False
    _keep_endpoint(unit, switched(known, state, reason))
    unit.tell(Hint.MESSAGES)  # what waited for it can be posted
    return True


async def note_endpoint(unit: Unit, note: EndpointNote) -> Endpoint | None:
    """Record how a post went."""
    known = await _endpoint_of(unit, note.name)
    if known is None:
        return None
    after = noted(known, note, unit.now)
    _keep_endpoint(unit, after)
    return after


async def delete_endpoint(unit: Unit, name: str) -> bool:
    """Remove one; False: unknown."""
    if await _endpoint_of(unit, name) is None:
        return False
    unit.run("HDEL", keys.ENDPOINTS, name)
    unit.run("HDEL", keys.POSTS, name)
    return True


async def put_posts(unit: Unit, posts: Sequence[PostRecord]) -> None:
    """Keep how posts went, the newest of each endpoint."""
    for name in dict.fromkeys(one.endpoint for one in posts):
        # Only of an endpoint that is there: with one that is deleted, its posts go as well.
        if await _endpoint_of(unit, name) is None:
            continue
        known = read_posts(await unit.hash_field(keys.POSTS, name))
        own = [one for one in posts if one.endpoint == name]
        unit.run("HSET", keys.POSTS, name, written_posts(newest_posts(known, own)))


async def posts(unit: Unit, endpoint: str) -> list[PostRecord]:
    """The newest posts to an endpoint."""
    (found,) = await unit.read(["HGET", unit.key(keys.POSTS), endpoint])
    return list(newest_posts(read_posts(found)))


# -- declarations --------------------------------------------------------------------------------


async def declare(unit: Unit, kind: str, definitions: Mapping[str, str]) -> frozenset[str]:
    """Note what is defined; the names that are overruled."""
    key = keys.DECLARATIONS + kind
    rows = await _declared(unit, kind)
    for name, text in definitions.items():
        made = Declaration(name=name, fingerprint=text, first_seen=unit.now, last_seen=unit.now)
        known = rows.get((name, text), made)
        row = replace(known, last_seen=max(known.last_seen, unit.now))
        rows[name, text] = row
        unit.run("HSET", key, keys.pair(name, text), json_text(row))
    old = unit.now - timedelta(seconds=KEEP)
    for (name, text), row in rows.items():
        if row.last_seen < old:
            unit.run("HDEL", key, keys.pair(name, text))
    live = _live(rows.values(), unit.now)
    # The newest comes last here, so it is the one that stays.
    newest = {row.name: row.fingerprint for row in reversed(live)}
    return frozenset(name for name, text in definitions.items() if newest[name] != text)


async def declarations(unit: Unit, kind: str) -> list[Declaration]:
    """The recent declarations, by name, the newest first."""
    live = _live((await _declared(unit, kind)).values(), unit.now)
    return sorted(live, key=lambda row: row.name)[:_LISTED]


async def _declared(unit: Unit, kind: str) -> dict[tuple[str, str], Declaration]:
    (found,) = await unit.read(["HVALS", unit.key(keys.DECLARATIONS + kind)])
    rows = map(_declaration, found)
    return {(row.name, row.fingerprint): row for row in rows}


def _live(rows: Iterable[Declaration], now: datetime) -> list[Declaration]:
    since = now - timedelta(seconds=LIVE)
    live = [row for row in rows if row.last_seen > since]
    return sorted(live, key=lambda row: (row.first_seen, row.fingerprint), reverse=True)


# -- findings ------------------------------------------------------------------------------------


async def findings(unit: Unit) -> list[FindingRecord]:
    """The findings that stand, by name."""
    (found,) = await unit.read(["HVALS", unit.key(keys.FINDINGS)])
    return sorted(map(_finding, found), key=lambda each: each.name)[:_MOST_FINDINGS]


async def _finding_of(unit: Unit, name: str) -> FindingRecord | None:
    found = await unit.hash_field(keys.FINDINGS, name)
    return None if found is None else _finding(found)


async def record_finding(unit: Unit, name: str, text: str, *, new_id: str) -> FindingRecord:
    """Note that something was found."""
    known = await _finding_of(unit, name)
    if known is None or (known.accepted_at is not None and known.text != text):
        if known is not None:
            _keep_accepted(unit, known)
        found = FindingRecord(id=new_id, name=name, text=text, since=unit.now, seen_at=unit.now)
    else:
        found = replace(known, text=text, seen_at=unit.now)
    unit.run("HSET", keys.FINDINGS, name, json_text(found))
    return found


async def end_finding(unit: Unit, name: str) -> bool:
    """Note that it is not so any more."""
    known = await _finding_of(unit, name)
    if known is None:
        return False
    if known.accepted_at is not None:
        _keep_accepted(unit, known)
    unit.run("HDEL", keys.FINDINGS, name)
    return True


def _keep_accepted(unit: Unit, known: FindingRecord) -> None:
    """Keep an accepted finding for audits."""
    unit.run("HSET", keys.ACCEPTED, known.id, json_text(known))


async def accept_finding(unit: Unit, finding: str, reason: str) -> FindingRecord | None:
    """Accept the finding of this id."""
    named = [each.name for each in await findings(unit) if each.id == finding]
    known = await _finding_of(unit, named[0]) if named else None
    # Since the list was read, another finding may have got the name.
    if known is None or known.id != finding:
        return None
    if known.accepted_at is None:
        known = replace(known, accepted_at=unit.now, reason=reason)
        unit.run("HSET", keys.FINDINGS, known.name, json_text(known))
    return known


# -- claims --------------------------------------------------------------------------------------


class KeptClaim(Struct, frozen=True, omit_defaults=True):
    """A claimed name; ``free_at`` is None when it is held for good."""

    holder: str
    free_at: datetime | None = None


_claim = msgspec.json.Decoder(KeptClaim).decode


async def claim(
    unit: Unit, key: str, holder: str, *, ttl: float | None = None, renew: bool = False
) -> bool:
    """Claim a name; who has it keeps it, until the time of the first claim, or of one that renews,
    is over.
    """
    found = await unit.hash_field(keys.CLAIMS, key)
    known = None if found is None else _claim(found)
    held = known is not None and (known.free_at is None or unit.now < known.free_at)
    if known is not None and held and (known.holder != holder or not renew):
        return known.holder == holder
    free_at = maybe_later(unit.now, ttl)
    unit.run("HSET", keys.CLAIMS, key, json_text(KeptClaim(holder, free_at)))
    if free_at is None:
        unit.run("ZREM", keys.CLAIM_ENDS, key)
    else:
        unit.run("ZADD", keys.CLAIM_ENDS, micros(free_at), key)
    return True


async def release_claim(unit: Unit, key: str, holder: str) -> bool:
    """Give a name back; False when it was not this holder's."""
    found = await unit.hash_field(keys.CLAIMS, key)
    if found is None or _claim(found).holder != holder:
        return False
    unit.run("HDEL", keys.CLAIMS, key)
    unit.run("ZREM", keys.CLAIM_ENDS, key)
    return True


async def free_claims(unit: Unit, workers: Collection[str]) -> None:
    """End the claims for a time that these workers hold."""
    ends, now = unit.key(keys.CLAIM_ENDS), micros(unit.now)
    (found,) = await unit.read(["ZRANGEBYSCORE", ends, f"({now}", "+inf", "LIMIT", 0, _MOST_FREED])
    for key in (each.decode() for each in found):
        known = await unit.hash_field(keys.CLAIMS, key)
        if known is not None and worker_of(_claim(known).holder) in workers:
            freed = replace(_claim(known), free_at=unit.now)
            unit.run("HSET", keys.CLAIMS, key, json_text(freed))
            unit.run("ZADD", keys.CLAIM_ENDS, now, key)


async def prune_claims(unit: Unit, limit: int) -> None:
    """Forget claims whose time is over."""
    ends = unit.key(keys.CLAIM_ENDS)
    (found,) = await unit.read(
        ["ZRANGEBYSCORE", ends, "-inf", micros(unit.now), "LIMIT", 0, max(limit, 0)]
    )
    for key in (each.decode() for each in found):
        known = await unit.hash_field(keys.CLAIMS, key)
        free_at = None if known is None else _claim(known).free_at
        # Asked of the row, for the claim may have been renewed since the index was read.
        if known is None or (free_at is not None and free_at <= unit.now):
            unit.run("HDEL", keys.CLAIMS, key)
            unit.run("ZREM", keys.CLAIM_ENDS, key)


# -- pauses --------------------------------------------------------------------------------------


async def pause_queue(unit: Unit, name: str, *, until: datetime | None = None) -> None:
    """Hand out nothing of a queue."""
    unit.run("HSET", keys.PAUSES, name, "" if until is None else str(micros(until)))


async def resume_queue(unit: Unit, name: str) -> bool:
    """Hand out its jobs again; False: it was not paused."""
    found = await unit.hash_field(keys.PAUSES, name)
    if found is None:
        return False
    unit.run("HDEL", keys.PAUSES, name)
    unit.tell(Hint.WORK)
    return not found or moment(found.decode()) > unit.now
