"""Limits by key: held jobs are admitted up to the room of their keys.

A count is raised here only, under the lock of the key's row. What lowers it, an ended or held job,
adds a nudge in its own transaction, which is taken in here. So a count is at times too high and
never too low, nobody but an admission ever waits for a key, and an admission never waits for a job.
A trigger adds the nudge of each job; a batch of many jobs adds up its own, one for each key.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct

from offpath.model.joined_limits import Room, admitted, first_of, is_joined, with_parts
from offpath.model.limit import Admitted, RateSpec
from offpath.model.rate import RateState, decode_state, encode_state, take
from offpath.model.settlement import Settlement, Snoozed
from offpath.store.postgres.steps import moment, to_json
from offpath.store.programs.dialect import Announced, Rows, Send, Steps, ask
from offpath.store.sql import Catalogue, Query, Row
from offpath.store.unreadable import UNREADABLE

# The rows of its keys are held until its commit, and others that admit wait for them.
AT_ONCE: Final = 1000
"""Jobs that a pass which nobody asked for admits at most."""
# A pass holds the rows of its keys until its commit, and a cool-down waits for them.
_KEYS_AT_ONCE: Final = 200

_rate = msgspec.json.Decoder(RateSpec)


class _Pass(Struct, frozen=True, omit_defaults=True):
    """The result of a pass for a key. ``next_in`` comes with a rate's state only."""

    key: str
    jobs: int
    rate_state: str | None = None
    next_in: float | None = None


def admit_steps(
    limit: int,
    keys: Sequence[str],
    now: datetime | None,
    announced: Announced | None = None,
    *,
    near: bool = True,
    sql: Catalogue,
) -> Steps[Admitted]:
    """One pass over these keys, or over those that something may be done for.

    ``near``: also over the lines that share a limit with these keys.
    """
    given = with_parts(keys)
    turns = given or with_parts((yield from _turns(now, sql)))
    if near and (given or any(map(is_joined, turns))):
        turns = with_parts([*turns, *(yield from waiting_steps(turns, now, sql=sql, last=False))])
    given = turns if given else []
    if not turns or limit <= 0:
        return Admitted(jobs=0, more=bool(turns), next_in=(yield from _outlook(given, now, sql)))
    names = to_json(turns)
    lines = any(is_joined(key) for key in turns)
    # The keys come first, for their counts are what is decided by. Jobs that somebody holds are
    # skipped (pick_held), so a pass that holds keys never waits for a job.
    *_, rates, _, picked = yield Send(
        (
            sql["make_limits"](keys=names),
            sql["lock_limits"](keys=names),
            sql["hold_untaken"](keys=names, now=moment(now)),
            *((sql["hold_untaken_lines"](keys=names, now=moment(now)),) if lines else ()),
            sql["recount_limits"](keys=names, now=moment(now)),
            *((sql["recount_shared"](keys=names),) if lines else ()),
            sql["read_nudges"](keys=names),
            sql["rates_of"](keys=names, now=moment(now)),
            sql["admitting"](),
            sql["pick_held"](keys=names, now=moment(now), limit=limit),
        )
    )
    ids, passes, wait = (_granted_together if lines else _granted)(rates, picked)
    became_ready, _, outlook = yield Send(
        (
            # By id, as all that write rows of jobs.
            sql["admit_jobs"](ids=to_json(sorted(ids)), now=moment(now)),
            sql["save_limits"](batch=to_json(passes), now=moment(now)),
            sql["limit_outlook"](keys=to_json(given) if given else None, now=moment(now)),
        ),
        last=True,
    )
    if announced is not None:
        announced.hear(announce for (announce,) in became_ready)
    cut = len(ids) == limit or _is_cut(picked, passes)
    # As many keys as a pass takes at most: others may wait for their turn.
    full = cut or (not given and len(turns) >= _KEYS_AT_ONCE)
    waits = [each for each in (outlook[0][0], wait) if each is not None]
    return Admitted(jobs=len(ids), more=full, next_in=min(waits, default=None))


def _turns(now: datetime | None, sql: Catalogue) -> Steps[list[str]]:
    rows = yield from ask(sql["limit_turns"](now=moment(now), most=_KEYS_AT_ONCE))
    return sorted(key for (key,) in rows)


def _outlook(keys: Sequence[str], now: datetime | None, sql: Catalogue) -> Steps[float | None]:
    query = sql["limit_outlook"](keys=to_json(keys) if keys else None, now=moment(now))
    rows = yield from ask(query, last=True)
    seconds: float | None = rows[0][0]
    return seconds


def _granted(rates: Rows, picked: Rows) -> tuple[list[str], list[_Pass], None]:
    """The picked jobs that the rates allow; and what each key's row says from now on."""
    by_key: dict[str, list[str]] = {key: [] for key, *_ in rates}
    for key, job, *_ in picked:
        if key in by_key:  # else its row was made after those of this pass were held
            by_key[key].append(job)
    ids, passes = list[str](), list[_Pass]()
    for key, rate, state, micros, _ in rates:
        wanted = by_key[key]
        if rate is None or not wanted:
            ids += wanted
            passes.append(_Pass(key, len(wanted)))
            continue
        if (readable := _readable(rate, state)) is None:
            passes.append(_Pass(key, 0))
            continue
        taken = take(*readable, micros / 1e6, len(wanted))
        ids += wanted[: taken.granted]
        passes.append(_Pass(key, taken.granted, encode_state(taken.state), taken.next_in))
    return ids, passes, None


def _granted_together(rates: Rows, picked: Rows) -> tuple[list[str], list[_Pass], float | None]:
    """The same where jobs have several limits: the best of all goes first that fits in all of its
    own. Also the seconds until a rate allows what it refused.
    """
    # One row at least is there: the keys of a pass were made by its first statement.
    now = rates[0][3] / 1e6
    rooms = {row[0]: _room(row, now) for row in rates if not is_joined(row[0])}
    ordered = sorted(picked, key=_place)
    gone = [ordered[at] for at in admitted((row[0] for row in ordered), rooms, len(ordered))]
    jobs = Counter(key for key, *_ in gone)
    passes = [_pass_of(key, jobs[key], rooms.get(key), now) for key, *_ in rates]
    waits = [wait for room in rooms.values() if (wait := room.wait(now)) is not None]
    return [job for _, job, *_ in gone], passes, min(waits, default=None)


def _place(row: Row) -> tuple[int, int, int, str]:
    _, job, _, sent_back, priority, run_at = row
    return sent_back, -priority, run_at, job


def _room(row: Row, now: float) -> Room:
    _, rate, state, _, bound = row
    left = math.inf if bound is None else bound
    if rate is None:
        return Room(left)
    readable = _readable(rate, state)
    return Room(0) if readable is None else Room.of(left, *readable, now)


def _pass_of(key: str, jobs: int, room: Room | None, now: float) -> _Pass:
    after = None if room is None else room.after(now)
    if after is None:
        return _Pass(key, jobs)
    return _Pass(key, jobs, encode_state(after.state), after.next_in)


def _readable(rate: str, state: str | None) -> tuple[RateSpec, RateState | None] | None:
    """A rate with what it remembers; None when its row cannot be read: it lets nothing in."""
    try:
        return _rate.decode(rate), decode_state(state)
    except UNREADABLE:
        return None


def _is_cut(picked: Rows, passes: Iterable[_Pass]) -> bool:
    """True if its share of the pass was all that bounded a key."""
    shares = {key: share for key, _, share, *_ in picked}
    return any(one.jobs > 0 and one.jobs == shares.get(one.key) for one in passes)


def close_steps(
    key: str,
    until: datetime | None,
    seconds: float | None,
    now: datetime | None,
    *,
    sql: Catalogue,
) -> Steps[int]:
    """Close a key and hold its ready jobs again; how many these were."""
    names = to_json([key])
    # A time that was given counts; seconds are counted from the now of the statement.
    batch = to_json([{"key": key, "until": until, "seconds": None if until else seconds}])
    *_, held, _ = yield Send(
        (
            sql["make_limits"](keys=names),
            sql["lock_limits"](keys=names),
            sql["close_limits"](batch=batch, now=moment(now)),
            sql["hold_closed"](keys=names, now=moment(now)),
            sql["read_nudges"](keys=names),
        )
    )
    yield from ask(sql["save_limits"](batch=to_json([_Pass(key, 0)]), now=moment(now)), last=True)
    return len(held)


def hold_closed_steps(keys: Sequence[str], now: datetime | None, *, sql: Catalogue) -> Steps[None]:
    """Hold the ready jobs of those keys that are closed.

    What they nudge is left to a pass, which also notes that they wait.
    """
    names = to_json(with_parts(keys))
    yield Send(
        (sql["lock_limits"](keys=names), sql["hold_closed"](keys=names, now=moment(now))),
        last=True,
    )


def cool_down_steps(
    cool_downs: Mapping[str, float], now: datetime | None, *, sql: Catalogue
) -> Steps[None]:
    """Close these keys for some seconds, in the transaction of a settlement.

    Rows of limits come after those of jobs and before those of groups.
    """
    if not cool_downs:
        return
    names = to_json(sorted(cool_downs))
    batch = to_json([{"key": key, "seconds": each} for key, each in sorted(cool_downs.items())])
    # Sorted, as every transaction that locks several keys.
    yield Send(
        (
            sql["make_limits"](keys=names),
            sql["lock_limits"](keys=names),
            sql["close_limits"](batch=batch, now=moment(now)),
        )
    )


def hold_again_steps(
    keys: Sequence[str], now: datetime | None, *, sql: Catalogue
) -> Steps[set[str]]:
    """Hold what this transaction has put back of keys that are closed; which jobs these are.

    The rows of the keys are locked, so that nobody closes one who does not see these jobs.
    """
    if not keys:
        return set()
    names = to_json(with_parts(keys))
    _, held = yield Send(
        (sql["lock_limits"](keys=names), sql["hold_closed"](keys=names, now=moment(now)))
    )
    return {job for (job,) in held}


def cool_downs(settlements: Iterable[Settlement]) -> dict[str, float]:
    """The keys that cool down by these, and for how long."""
    found: dict[str, float] = {}
    for one in settlements:
        key, outcome = one.job.limit_key, one.outcome
        if key is not None and isinstance(outcome, Snoozed) and outcome.cool_down is not None:
            first = first_of(key)
            # The longest of several counts: a shorter one would cut the pause of another short.
            found[first] = max(found.get(first, 0.0), outcome.cool_down)
    return found


def waiting_steps(
    keys: Sequence[str], now: datetime | None, *, sql: Catalogue, last: bool = True
) -> Steps[list[str]]:
    """The keys for which room that these got back is worth a pass. A job that is held meanwhile has
    a nudge of its own, which brings about one.
    """
    names = to_json(with_parts(keys))
    query = sql["waiting_limits"](keys=names, now=moment(now), most=_KEYS_AT_ONCE)
    return [key for (key,) in (yield from ask(query, last=last))]


def open_steps(key: str, now: datetime | None, *, sql: Catalogue) -> Steps[bool]:
    """End a pause and a cool-down."""
    rows = yield from ask(sql["open_limit"](key=key, now=moment(now)), last=True)
    return any(was_closed for (was_closed,) in rows)


MANY: Final = 16
"""Jobs with a limit from which on adding up is worth its round trip; the trigger does for fewer."""


def many(limits: Iterable[object | None]) -> bool:
    """True if these, None where a job has none, are worth it."""
    return sum(limit is not None for limit in limits) >= MANY


class Nudge(Struct, frozen=True, omit_defaults=True):
    """So many jobs of a key have given their room back, or its limit is said anew."""

    key: str
    freed: int = 0
    spec: str | None = None


def nudge_limits(nudges: Sequence[Nudge], *, sql: Catalogue) -> Query:
    """Say these."""
    return sql["nudge_limits"](batch=to_json(nudges))
