"""A unit of work: what a transition has read and will write, and the one call that writes it.

A transition reads rows, decides in Python, and writes by one function call that first compares
every field that was read with what is there now. So each is as if it ran alone: when somebody was
quicker nothing is written, and the transition begins again with what is there then.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

from offpath.errors import StoreBusy
from offpath.model.group import GroupPolicy
from offpath.model.job import TERMINAL, JobRecord, JobState
from offpath.model.new import Box, NewMessage
from offpath.runtime.ids import IdGenerator
from offpath.store.hints import Hint
from offpath.store.redis import keys
from offpath.store.redis.connection import RedisConnection, packed
from offpath.store.redis.groups import KeptGroup, beside
from offpath.store.redis.groups import row_of as group_of
from offpath.store.redis.index import IndexChanges
from offpath.store.redis.job_rows import FIELDS, StoredJob, hash_of, row_of
from offpath.store.redis.message_rows import write_command
from offpath.store.rows.announcements import announcement, wanted
from offpath.store.rows.jobs import JobTerms

T = TypeVar("T")

TRIES: Final = 100
"""Times that a transition begins again because somebody was quicker, before it gives up."""
_PAUSE: Final = 0.02
"""Seconds at most between two tries: two writers that meet again and again must fall apart."""

_FAILED: Final = (JobState.DEAD, JobState.CANCELLED)
_KINDS: Final = {
    "ZADD": "zset", "ZREM": "zset", "HSET": "hash", "HDEL": "hash", "SADD": "set", "SREM": "set",
}  # fmt: skip


class Unit:
    """One try of one transition."""

    def __init__(self, connection: RedisConnection, now: datetime, new_id: IdGenerator) -> None:
        self.now = now
        self._connection = connection
        self._new_id = new_id
        self._prefix = connection.prefix
        # Rows and holders twice: as they were read, which the write compares, and as they will be,
        # which later steps of the same transition must see.
        self._stored: dict[str, StoredJob | None] = {}
        self._rows: dict[str, StoredJob | None] = {}
        self._hashes: dict[str, list[str]] = {}
        self._holders: dict[str, str | None] = {}
        self._keys: dict[str, str | None] = {}
        self._groups: dict[str, KeptGroup | None] = {}
        self._messages: dict[str, str] = {}
        self._checks: dict[tuple[str, str], Any] = {}
        self._commands: list[list[Any]] = []
        # Behind the changes of indexes: a group is forgotten only when no member is left in them.
        self._last: list[list[Any]] = []
        self._counted: list[tuple[str, str]] = []
        self._hints: set[Hint] = set()
        self.ended: dict[str, int] = {}
        """The answers of groups whose member has ended, by the member's id."""

    # -- reading ---------------------------------------------------------------------------

    async def load(self, ids: Iterable[str], *, unique: Iterable[str] = ()) -> None:
        """Read jobs, and the holders of unique keys, as far as they are not known yet."""
        wanted_ids = [each for each in dict.fromkeys(ids) if each not in self._rows]
        wanted_keys = [each for each in dict.fromkeys(unique) if each not in self._holders]
        if not wanted_ids and not wanted_keys:
            return
        commands = [self._read_job(each) for each in wanted_ids]
        if wanted_keys:
            commands.append(["HMGET", self._prefix + keys.UNIQUE, *wanted_keys])
        answers = await self._connection.read(*commands)
        # Not strict: the last answer may be that of the keys.
        for each, fields in zip(wanted_ids, answers, strict=False):
            self.know(each, None if fields[0] is None else row_of(each, fields))
        if wanted_keys:
            holders = [None if one is None else one.decode() for one in answers[-1]]
            self._holders.update(zip(wanted_keys, holders, strict=True))
            self._keys.update(zip(wanted_keys, holders, strict=True))
        # who holds a key, and the keys of the jobs that were read, are part of the decision
        keys_of = [key for each in wanted_ids if (key := self._key_of(each)) is not None]
        await self.load([one for one in self._holders.values() if one], unique=keys_of)

    def know(self, job_id: str, row: StoredJob | None) -> None:
        """A job is stored as this row, or not at all."""
        self._stored[job_id] = self._rows[job_id] = row

    async def peek(self, ids: Iterable[str]) -> dict[str, StoredJob]:
        """The jobs of these ids that exist, for an answer that no write depends on."""
        wanted_ids = list(dict.fromkeys(ids))
        answers = await self._connection.read(*(self._read_job(each) for each in wanted_ids))
        found = zip(wanted_ids, answers, strict=True)
        return {each: row_of(each, fields) for each, fields in found if fields[0] is not None}

    async def load_groups(self, ids: Iterable[str]) -> None:
        """Read groups, and their roots."""
        unknown = [each for each in dict.fromkeys(ids) if each not in self._groups]
        if unknown:
            found = await self._connection.read(
                *(["HGETALL", self._prefix + keys.GROUP + each] for each in unknown)
            )
            self._groups.update(
                (one, group_of(row)) for one, row in zip(unknown, found, strict=True)
            )
            await self.load(unknown)

    async def load_messages(self, new: Sequence[NewMessage]) -> None:
        """Find the messages that stand for these already."""
        commands: list[list[Any]] = []
        for each in new:
            commands.append(["HEXISTS", self._prefix + keys.MESSAGE + each.id, "d"])
            commands.append(["HGET", self._prefix + keys.INBOX_KEYS, _inbox_key(each) or ""])
        answers = await self._connection.read(*commands)
        for number, each in enumerate(new):
            there, holder = answers[2 * number : 2 * number + 2]
            if there:
                self._messages[each.id] = each.id
            elif holder is not None:
                self._messages[each.id] = holder.decode()

    async def read(self, *commands: Sequence[Any]) -> list[Any]:
        """The answers to some reads."""
        return await self._connection.read(*commands)

    async def call_function(self, name: str, *args: Any) -> Any:  # noqa: ANN401 - as it answers
        """The answer of one of our functions that writes nothing."""
        return await self._connection.call(name, *args)

    async def hash_field(self, key: str, field: str) -> bytes | None:
        """A field of a hash, which is compared before anything is written."""
        (found,) = await self._connection.read(["HGET", self._prefix + key, field])
        self.check(key, field, None if found is None else found.decode())
        return None if found is None else bytes(found)

    def job(self, job_id: str | None) -> StoredJob | None:
        """A job as it will be. It was loaded."""
        return None if job_id is None else self._rows.get(job_id)

    def key(self, name: str) -> str:
        """The full name of a key."""
        return self._prefix + name

    def _read_job(self, job_id: str) -> list[Any]:
        return ["HMGET", self._prefix + keys.JOB + job_id, *FIELDS]

    def _key_of(self, job_id: str) -> str | None:
        row = self._rows[job_id]
        return None if row is None else row.record.unique_key

    # -- unique keys -----------------------------------------------------------------------

    def holder_of(self, key: str) -> StoredJob | None:
        """The job that holds a unique key now."""
        row = self.job(self._keys.get(key))
        # A key is not taken from a job as its time passes: whoever asks finds that it is over.
        if row is None or not row.terms.in_scope(row.record.state, self.now):
            return None
        return row

    def awaits_key(self, row: StoredJob) -> bool:
        """True if a job must not run yet: another one that has not ended has its unique key."""
        job = row.record
        if job.unique_key is None or not row.terms.in_scope(JobState.RUNNING, self.now):
            return False
        holder = self.job(self._keys.get(job.unique_key))
        return (
            holder is not None
            and holder.record.id != job.id
            and holder.record.state not in TERMINAL
        )

    def release_key(self, key: str, job_id: str) -> None:
        """This job has the unique key no more."""
        if self._keys.get(key) == job_id:
            self._keys[key] = None

    def _hold_key(self, row: StoredJob) -> None:
        job = row.record
        if job.unique_key is None:
            return
        if not row.terms.in_scope(job.state, self.now):
            self.release_key(job.unique_key, job.id)
        elif self.holder_of(job.unique_key) is None:
            self._keys[job.unique_key] = job.id

    # -- writing ---------------------------------------------------------------------------

    def check(self, key: str, field: str, value: object) -> None:
        """Write nothing unless a field has this value (None: is absent)."""
        # What was read first counts: decisions were made by it, and a later look may see a newer
        # row.
        self._checks.setdefault((self._prefix + key, field), "" if value is None else value)

    def check_first(self, key: str, member: str) -> None:
        """Write nothing unless this is the first member of a sorted set."""
        self._checks[self._prefix + key, ""] = member

    def run(self, command: str, key: str, *args: object) -> None:
        """A command that is carried out with the rest."""
        self._commands.append([command, self._prefix + key, *args])

    def call(self, name: str, *args: object) -> None:
        """A command of our own functions."""
        self._commands.append([name, *args])

    def tell(self, hint: Hint) -> None:
        """Wake others once it is written."""
        self._hints.add(hint)

    def becomes(self, row: StoredJob) -> None:
        """A job will have become this row when what it brings into being arrives."""
        job = row.record
        self._rows[job.id] = row
        if job.unique_key is not None:
            holder = self.holder_of(job.unique_key)
            if holder is None or holder.record.id == job.id:
                in_scope = row.terms.in_scope(job.state, self.now)
                self._keys[job.unique_key] = job.id if in_scope else None

    def file(self, row: StoredJob, *, was: JobRecord | None = None) -> None:
        """Put a row in the place of the one before, if any; ``was`` names another one."""
        job, before = row.record, self._rows.get(row.record.id)
        if was is None and before is not None:
            was = before.record
        # One that has ended is a suspect no more; left in the index it would be counted with those
        # of its crash.
        if job.state in TERMINAL and row.crash is not None:
            row = row._replace(crash=None, alone=False)
        self._hashes[job.id] = hash_of(row, self._stored.get(job.id))
        self._rows[job.id] = row
        self._hold_key(row)
        self._count(was, job, row.terms)
        if wanted(row.terms.announce, was, job):
            told = announcement(row.terms.announce, was, job, self.now, self._new_id)
            self.write_message(told)
        if job.state is JobState.QUEUED:
            self.tell(Hint.WORK)
        elif job.state in TERMINAL:
            self.tell(Hint.ENDED)

    def drop(self, row: StoredJob) -> None:
        """Remove an ended job and all that belongs to it."""
        job = row.record
        self._rows[job.id] = None
        if job.unique_key is not None:
            self.release_key(job.unique_key, job.id)
        self._last.append(["@forget", job.group_id])

    def adopt(self, job: JobRecord, policy: GroupPolicy) -> None:
        """A new root says what becomes of its group. Its group was loaded."""
        if policy is GroupPolicy.SETTLE_ALL:
            return
        group = self._groups.get(job.id)
        if group is None:
            # Without the root: it is new itself, and is counted when it is filed.
            group = self._make_group(job.id, None)
        self._put_group(job.id, "p", policy.value)
        # Members may have come, and failed, before their root.
        if group.failed:
            self.close_group(job.id)

    def close_group(self, group_id: str) -> None:
        """The members of a loaded group are to be cancelled."""
        if not self.has_group(group_id):
            self._make_group(group_id, self.root_of(group_id))
        self._put_group(group_id, "c", "1")
        self.run("ZADD", keys.CLOSING, 0, group_id)

    def value_of(self, group_id: str) -> tuple[str | None, bool]:
        """The value of a group so far, and whether it is final. The group was loaded."""
        group = self._groups.get(group_id)
        if group is None:
            group = beside(self.root_of(group_id))
        else:
            self.check(keys.GROUP + group_id, "v", group.stored_value)
            self.check(keys.GROUP + group_id, "n", group.stored_final)
        return group.value, group.final

    def put_value(self, group_id: str, value: str | None, *, final: bool) -> None:
        """Give a group its value, before its member is filed."""
        group = self._groups.get(group_id) or self._make_group(group_id, self.root_of(group_id))
        self._groups[group_id] = group._replace(value=value, final=final)
        if value is not None:
            self._put_group(group_id, "v", value)
        self._put_group(group_id, "n", "1" if final else "0")

    def has_group(self, group_id: str) -> bool:
        """True if a loaded group has a row."""
        return self._groups.get(group_id) is not None

    def root_of(self, group_id: str) -> JobRecord | None:
        """The job that a group is named after, when it is there and its own."""
        row = self.job(group_id)
        return row.record if row is not None and row.record.group_id == group_id else None

    def known_message(self, new: NewMessage) -> str | None:
        """The id of the message that stands for this one already."""
        return self._messages.get(new.id) or self._messages.get(_inbox_key(new) or "")

    def write_message(self, new: NewMessage) -> None:
        """Write a new message behind all others."""
        self._messages[new.id] = new.id
        if (key := _inbox_key(new)) is not None:
            self._messages[key] = new.id
            self.check(keys.INBOX_KEYS, key, None)
        self.check(keys.MESSAGE + new.id, "d", None)
        self._commands.append(write_command(new, self.now, key or ""))
        self.tell(Hint.MESSAGES)

    def group_id(self, job_id: str) -> str | None:
        """The group of a job that was loaded; None of one that is not there."""
        row = self.job(job_id)
        return None if row is None else row.record.group_id

    def savepoint(self) -> tuple[Any, ...]:
        """The state that :meth:`restore` goes back to."""
        parts = self._rows, self._keys, self._groups, self._messages, self._checks
        lengths = len(self._commands), len(self._last), len(self._counted)
        # Lists only grow within a try, so their lengths are enough.
        return [part.copy() for part in parts], lengths, self._hints.copy()

    def restore(self, point: tuple[Any, ...]) -> None:
        """Undo what was filed since a savepoint."""
        parts, lengths, self._hints = point
        self._rows, self._keys, self._groups, self._messages, self._checks = parts
        commands, last, counted = lengths
        del self._commands[commands:], self._last[last:], self._counted[counted:]

    # -- groups ----------------------------------------------------------------------------

    def _count(self, was: JobRecord | None, job: JobRecord, terms: JobTerms) -> None:
        """Count a job that is new, has ended, or had ended, in its group."""
        if was is None:
            if job.group_id != job.id and self._groups.get(job.group_id) is None:
                self._make_group(job.group_id, self.root_of(job.group_id))
            if job.group_id == job.id:
                self.adopt(job, terms.policy)
            kind, opened, failed = "new", 1, 0
        else:
            is_over, was_over = job.state in TERMINAL, was.state in TERMINAL
            if is_over is was_over:
                return
            kind, opened = ("end", -1) if is_over else ("again", 1)
            failed = int(job.state in _FAILED) - int(was.state in _FAILED)
        # a lone job's record says it all: then there is no row to count in
        self._counted.append((kind, job.id))
        self._commands.append(["@group", job.group_id, kind, opened, failed])

    def _make_group(self, group_id: str, root: JobRecord | None) -> KeptGroup:
        """The row of a group that had none: it says what its root says."""
        group = self._groups[group_id] = beside(root)
        # Two that make one group at once would each write their own count over the other.
        self.check(keys.GROUP + group_id, "o", None)
        self.run("HSET", keys.GROUP + group_id, *group.fields())
        return group

    def _put_group(self, group_id: str, field: str, value: str) -> None:
        self.run("HSET", keys.GROUP + group_id, field, value)

    # -- the end ---------------------------------------------------------------------------

    async def write(self, *, grows: bool) -> bool:
        """Write it all; False, and nothing is written, when somebody was quicker. ``grows``: not
        on a server whose memory is full.
        """
        index = self._index()
        # Wake-ups go with the write: a crash between the two would leave sleepers with work and no
        # word of it.
        commands = [*self._commands, *index, *self._last, *self._publications()]
        if not (self._commands or index or self._last):
            return True
        self._check_rows()
        checks = [[key, field, value] for (key, field), value in self._checks.items()]
        # The kinds of keys go along: nothing is rolled back there, so all is checked before it
        # writes.
        answers = await self._connection.call(
            "apply" if grows else "go_on", packed([checks, self._types(commands), commands])
        )
        if answers[0] == 0:
            return False
        # Of all commands only our own are answered.
        ran = [each[0] for each in commands if each[0].startswith("@")]
        counted = [one for one, name in zip(answers[1:], ran, strict=True) if name == "@group"]
        for (kind, job_id), answer in zip(self._counted, counted, strict=True):
            if kind == "end":
                self.ended[job_id] = answer
        for hint in self._hints:
            self._connection.hints.emit(hint)
        return True

    def _check_rows(self) -> None:
        for job_id, row in self._stored.items():
            self.check(keys.JOB + job_id, "d", None if row is None else row.stored.decode())
        for key, holder in self._holders.items():
            self.check(keys.UNIQUE, key, holder)

    def _publications(self) -> list[list[Any]]:
        channel = self._prefix + keys.HINTS
        return [["PUBLISH", channel, hint.value] for hint in self._hints]

    def _types(self, commands: Iterable[Sequence[Any]]) -> dict[str, str]:
        """The keys that are written, each with the kind of value that it must have."""
        found = {each[1]: _KINDS[each[0]] for each in commands if each[0] in _KINDS}
        found |= {each[2]: _KINDS[each[1]] for each in commands if each[0] == "@many"}
        ready = (each[1] for each in commands if each[0] == "@ready")
        found |= {self._prefix + keys.READY + lane: "zset" for lane in ready}
        return {
            key: kind for key, kind in found.items() if key[len(self._prefix) :][:2] != keys.JOB
        }

    def _index(self) -> list[list[Any]]:
        """The commands that change the hashes of jobs and the sorted sets."""
        changes = IndexChanges(self._prefix, self.now)
        for job_id, row in self._rows.items():
            stored = self._stored.get(job_id)
            if row is not stored:
                changes.move(job_id, stored, row, self._hashes.get(job_id, []))
        for key, holder in self._keys.items():
            # Most units leave keys as they were, and every command makes the server wait.
            if holder == self._holders.get(key):
                continue
            changes.commands.append(
                ["HDEL", self._prefix + keys.UNIQUE, key]
                if holder is None
                else ["HSET", self._prefix + keys.UNIQUE, key, holder]
            )
        return changes.all()


def _inbox_key(new: NewMessage) -> str | None:
    """The field by which a repeat of an inbox message is found."""
    if new.box is Box.OUT or new.key is None:
        return None
    return keys.pair(new.stream, new.key)


async def transacted(
    connection: RedisConnection,
    new_id: IdGenerator,
    work: Callable[[Unit], Awaitable[T]],
    *,
    grows: bool = False,
) -> tuple[T, Unit]:
    """Carry out a transition, again and again until nobody was quicker; its answer and unit.

    ``grows``: it brings work into being, for which there must be memory. All else goes on while
    there is none, so that a full server can be emptied.

    Raises what ``work`` raises, and ``StoreBusy``.
    """
    for tried in range(TRIES):
        # All anew, the time as well: a try that was overtaken has seen rows that are not there any
        # more.
        unit = Unit(connection, await connection.now(), new_id)
        answer = await work(unit)
        if await unit.write(grows=grows):
            return answer, unit
        # At once the first time: whoever was quicker has mostly done. Then apart, by chance.
        await asyncio.sleep(random.uniform(0, _PAUSE) if tried else 0)  # noqa: S311 - no secret
    raise StoreBusy(f"others changed the same rows {TRIES} times: nothing was written")
