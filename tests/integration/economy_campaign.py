"""A campaign on an economy: processes that come and go, and what must hold when it is over."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from offpath import App
from offpath.economy import Economy, InvalidTransition, Receipt, SweepInput, event_key
from offpath.economy.ledger import wire
from offpath.economy.ledger.rows import PayoutBody, body
from offpath.economy.ledger.signatures import verify_checkpoint
from offpath.economy.ledger.verification import verify_last
from offpath.economy.testing import TestSigner
from offpath.model.ledger.posting import PostingRecord
from offpath.model.ledger.records import Checkpoint
from offpath.model.message import MessageState
from offpath.store.protocol import Store
from tests.conformance.backends import Backend
from tests.integration.economy_member import (
    Ids,
    Line,
    Orders,
    economy_of,
    read_journal,
    report_of,
    swept,
)
from tests.integration.economy_provider import SharedProvider, fails, ref_of
from tests.integration.economy_replay import Made, Replay, posted_again, root
from tests.integration.polling import eventually, window

ROOT = Path(__file__).resolve().parents[2]
MEMBER = "tests.integration.economy_member"
FAULTS = {"LEDGER.OVERDRAFT", "SAGA.INVALID_TRANSITION", "OP.MALFORMED"}
"""Errors that random operations may run into."""
Trouble = Callable[[], Awaitable[object]]
LATER = timedelta(hours=1)
"""After the campaign: every row that a killed process had leased is due again."""


class Fleet:
    """The processes, and how they are killed."""

    def __init__(self, url: str, folder: Path, members: int, sweepers: int) -> None:
        self.url, self.folder, self.sweepers = url, folder, sweepers
        self.members: list[subprocess.Popen[bytes]] = [self._begun(n, 0) for n in range(members)]
        self.starts = [1] * members
        self.killed = 0
        self.died = 0
        """The number of those that ended themselves, since the provider had it so."""

    def _begun(self, number: int, start: int) -> subprocess.Popen[bytes]:
        orders = Orders(
            url=self.url,
            folder=str(self.folder),
            number=number,
            start=start,
            sweeps=number < self.sweepers,
        )
        with (self.folder / f"log-{number}.{start}").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", MEMBER, msgspec.json.encode(orders).decode()],
                cwd=ROOT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    async def all_ready(self) -> None:
        """Wait until each process works."""
        await eventually(lambda: all(map(self.ready, range(len(self.members)))), within=60)

    def ready(self, number: int) -> bool:
        """True if the present process of a number works."""
        self.look_after(number)
        return (self.folder / f"ready-m{number}.{self.starts[number] - 1}").exists()

    def look_after(self, number: int) -> None:
        """Start a process anew that was killed."""
        code = self.members[number].poll()
        if code is None:
            return
        log = self.folder / f"log-{number}.{self.starts[number] - 1}"
        assert code == -signal.SIGKILL, log.read_text()[-4_000:]
        self.died += 1
        self._restart(number)

    def kill(self, number: int) -> None:
        """End one as a crash does, and start the next one in its place."""
        if self.ready(number):
            self.members[number].kill()
            self.members[number].wait()
            self.killed += 1
            self._restart(number)

    def _restart(self, number: int) -> None:
        self.members[number] = self._begun(number, self.starts[number])
        self.starts[number] += 1

    async def stop(self) -> None:
        """Have all of them end as they like to; those that have not begun yet, at once."""
        (self.folder / "stop").touch()
        for number, member in enumerate(self.members):
            if not (self.folder / f"ready-m{number}.{self.starts[number] - 1}").exists():
                member.kill()
            await eventually(partial(_over, member), within=60)
            log = self.folder / f"log-{number}.{self.starts[number] - 1}"
            assert member.returncode in {0, -signal.SIGKILL}, log.read_text()[-4_000:]

    def destroy(self) -> None:
        """Let none be left."""
        for member in self.members:
            member.kill()
            member.wait()


async def storm(fleet: Fleet, seconds: float, *, every: float, trouble: Sequence[Trouble]) -> None:
    """Let the fleet work for so long, and every so many seconds kill one or make trouble."""
    chance = random.Random(7)
    await fleet.all_ready()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        await window(every)
        for number in range(len(fleet.members)):
            fleet.look_after(number)
        picked = chance.choice([None, *trouble])
        if picked is None:
            fleet.kill(chance.randrange(len(fleet.members)))
        else:
            await picked()
    if not fleet.killed:
        await fleet.all_ready()
        fleet.kill(0)


class Campaign:
    """The remains of a campaign, and what must hold of them."""

    def __init__(self, url: str, folder: Path, members: int) -> None:
        self.folder = folder
        self.backend = _backend(url)
        self.provider = SharedProvider(folder / "provider.db")
        self.app = App(url, auto_start=False)
        self.events = folder / "events-late"
        self.app.outbox(dispatcher=self._delivered)
        self.economy: Economy = economy_of(self.app, self.provider, Ids("late"))
        self.lines = [
            line for n in range(members) for line in read_journal(folder / f"journal-{n}")
        ]
        self.requests = {
            line.key: wire.decode(line.op) for line in self.lines if line.op is not None
        }
        self.keys: dict[str, Receipt] = {}
        self.postings: list[PostingRecord] = []
        self.checkpoints: list[Checkpoint] = []

    @property
    def store(self) -> Store:
        """Past the faults: the database itself."""
        found: Store = self.app.store()
        return found

    def _delivered(self, event: Any) -> None:
        with self.events.open("a") as file:
            file.write(f"{event.id}\n")

    # -- bringing it to its end ------------------------------------------------------------------

    async def settled(self) -> None:
        """Bring every payout to its end, as the provider has it, and deliver every event."""
        await self.app.open()
        now = datetime.now(UTC).replace(microsecond=0)
        for _ in range(20):
            now += LATER
            asked = SweepInput(now=now, limit=500, only=("payouts", "relay"))
            await swept(self.economy, asked)
            for key, user, _ in self.provider.taken():
                request = report_of(key, user, event_key(f"pay:{key}"))
                self.requests[request.key] = request
                # one that is still on its way to the provider settles in the next round
                with suppress(InvalidTransition):
                    await self.economy.submit(request)
            if not await self._open_payouts():
                break
        assert not await self._open_payouts()
        self.keys = self._keys()
        self.postings = await self._postings()

    async def _open_payouts(self) -> int:
        rows = await self.store.ledger_sides(
            "payout", states=("RESERVED", "SUBMITTED"), limit=10_000
        )
        return len(rows)

    def _keys(self) -> dict[str, Receipt]:
        table = self.backend.migration_table.replace("migration", "ledger_key")
        rows = self.backend.execute(f"select key, receipt from {table}")
        return {key: _receipt(given) for key, given in rows}

    async def _postings(self) -> list[PostingRecord]:
        found: list[PostingRecord] = []
        while page := await self.store.ledger_postings(after=found[-1].seq if found else 0):
            found += page
        return found

    # -- what must hold ------------------------------------------------------------------------

    async def books(self) -> None:
        """Conserved, no floor passed, every chain and every checkpoint verifies."""
        proof = await self.economy.prove()
        assert proof.conserved
        assert proof.no_overdraft
        assert proof.chain_intact, proof
        assert proof.consistent, proof
        assert proof.accounts > 50
        balances = (await self.store.ledger_totals()).balances
        assert balances["payout_reserve"] == 0
        signer = TestSigner()
        last, seen = "", list[Checkpoint]()
        while page := await self.store.ledger_checkpoints(before=last):
            seen += page
            last = page[-1].id
        for one, before in zip(seen, [*seen[1:], None], strict=True):
            assert verify_checkpoint(one, signer)
            assert one.prev == (None if before is None else before.id)
            assert one.sum == 0
        assert seen
        self.checkpoints = seen
        for full in (False, True):
            assert not (await verify_last(self.store, signer, full=full)).mismatch
        found = [line for line in self.lines if line.key.startswith("sweep ")]
        assert found == []

    def kinds(self) -> Counter[str]:
        """The number of operations of each kind that were committed."""
        return Counter(
            type(self.requests[key]).__name__ for key in self.keys if key in self.requests
        )

    def promises(self) -> Counter[str]:
        """Each answer to a process is true, exactly once; the number of answers of each kind."""
        told: Counter[str] = Counter()
        owners: Counter[str] = Counter()
        for key, receipt in self.keys.items():
            if key in self.requests:
                owners.update(receipt.postings)
        assert set(owners.values()) <= {1}
        assert owners.keys() <= {one.id for one in self.postings}
        for line in self.lines:
            if line.told is None:
                continue
            told[line.told] += 1
            if line.told in {"committed", "duplicate"}:
                self._kept(line)
            elif line.told != "rejected":
                assert line.told in FAULTS, line
        return told

    def _kept(self, line: Line) -> None:
        kept = self.keys.get(line.key)
        if kept is None and line.told == "duplicate":
            return  # of what another key did: a second refund, a payout that had ended
        assert kept == line.receipt, line

    async def payments(self) -> Counter[str]:
        """The provider saw one payout per key, and paid what the ledger says that it paid."""
        taken = {one.key: one for one in self.provider.taken()}
        assert self.provider.conflicts() == []
        assert len(taken) == len(self.provider.taken())
        rows = await self.store.ledger_sides("payout", limit=10_000)
        assert taken.keys() <= {row.id for row in rows}
        states: Counter[str] = Counter()
        for row in rows:
            states[row.state] += 1
            if row.state == "SETTLED":
                usd = row.amount or 0
                assert taken[row.id][1:] == (row.owner, f"USD:{usd // 100}.{usd % 100:02d}")
                assert body(row, PayoutBody).provider_ref == ref_of(row.id)
                assert not fails(row.id)
            else:
                assert row.state == "FAILED"
                assert row.id not in taken or fails(row.id), row
        asked = Counter(self.provider.calls())
        states["asked again"] = sum(asked.values()) - len(asked)
        return states

    async def delivered(self) -> int:
        """Each event that counts as relayed was delivered; how many there were."""
        got = {
            line for path in self.folder.glob("events-*") for line in path.read_text().splitlines()
        }
        table = self.backend.migration_table.replace("migration", "message")
        rows = self.backend.execute(f"select id, state from {table} where box = 'out'")
        done = {one for one, state in rows if MessageState(state) is MessageState.DONE}
        assert done <= got
        assert {MessageState(state) for _, state in rows} <= {
            MessageState.DONE,
            MessageState.PENDING,
        }
        return len(done)

    def _returns(self) -> dict[str, str]:
        """The ids of the events that tell of payouts given back, by posting."""
        table = self.backend.migration_table.replace("migration", "message")
        topic = "economy.payout.reversed"
        rows = self.backend.execute(f"select id, payload from {table} where topic = '{topic}'")
        return {_decoded(payload)["subject"]: one for one, payload in rows}

    async def replayed(self) -> Replay:
        """Done again one by one, and posted again as it was, it comes out the same."""
        made = [
            Made(self.requests[key], receipt)
            for key, receipt in self.keys.items()
            if key in self.requests
        ]
        accounts = await self.store.ledger_accounts(limit=10_000)
        ended = await self.store.ledger_sides("promo", states=("REVERSED",), limit=10_000)
        replay = Replay(made, ended, self._returns())
        await replay.run(self.postings)
        again = await replay.store.ledger_accounts(limit=10_000)
        assert again == accounts
        assert root(again) == root(accounts)
        assert await replay.store.ledger_totals() == await self.store.ledger_totals()
        assert await posted_again(self.postings) == accounts
        assert {one.root for one in self.checkpoints} <= replay.roots
        return replay


def _over(member: subprocess.Popen[bytes]) -> bool:
    return member.poll() is not None


def _receipt(given: object) -> Receipt:
    return msgspec.convert(_decoded(given), Receipt)


def _decoded(given: Any) -> Any:
    """JSON as SQLite gives it, a text, or as Postgres does, with its type."""
    return json.loads(given) if isinstance(given, str | bytes) else given


def _backend(url: str) -> Backend:
    if url.startswith("sqlite:///"):
        return Backend("sqlite", url.removeprefix("sqlite:///"))
    return Backend("postgres", url)
