"""Trims: what a signed archive has is removed from the ledger, and all proofs go on from there."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from offpath.economy.ledger import removal
from offpath.economy.ledger.archive_files import verify_archives, write_archive
from offpath.economy.ledger.archive_live import continued
from offpath.economy.ledger.checkpoint import seal
from offpath.economy.ledger.export import export, verify_lines
from offpath.economy.ledger.proof import prove
from offpath.economy.ledger.recent_proof import prove_since
from offpath.economy.ledger.reconciliation import Window
from offpath.economy.ledger.removal import trim
from offpath.economy.ledger.rolling_proof import prove_turn, turn_at
from offpath.economy.ledger.settled_records import recorded
from offpath.economy.ledger.statements import archived_lines, facts_of
from offpath.economy.ledger.trim_proof import kept_hash
from offpath.economy.ledger.verification import verify_last
from offpath.economy.testing import TestSigner
from offpath.errors import InvalidArgument, StoreBusy, StoreRejected
from offpath.model.ledger.decision import Decided
from offpath.model.ledger.faults import Archived, ChainBroken
from offpath.model.ledger.trims import Trim, manifest
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.backends import Backend
from tests.conformance.builders import START, fresh_id
from tests.conformance.ledger_builders import (
    ANN,
    NOW,
    REVENUE,
    STORED_VALUE,
    done,
    failed,
    heads,
    lots,
    move,
    op,
    plain,
    raised,
)
from tests.conformance.ledger_tamper import SqlTamper, tamper
from tests.unit.economy.marketplace import RATES

pytestmark = pytest.mark.needs("ledger")

SIGNER = TestSigner()
HOUR = 3_600_000
DAY = 24 * HOUR


def at(clock: ManualClock) -> int:
    """The clock's time in milliseconds."""
    return NOW + round((clock.now() - START).total_seconds() * 1000)


async def sealed(store: Store, clock: ManualClock) -> str:
    """Seal now."""
    made = await seal(store, SIGNER, new_id=fresh_id, now=lambda: at(clock))
    assert made is not None
    return made.id


async def trimmed(
    store: Store, clock: ManualClock, path: Path, keep: int = HOUR, *, lost: bool = False
) -> Trim:
    """Trim by an archive."""
    return await trim(store, path, SIGNER, now=lambda: at(clock), keep=keep, lost=lost)


@pytest.fixture
async def archives(store: Store, clock: ManualClock, tmp_path: Path) -> list[Path]:
    """A ledger of three days, sealed and archived after each, and some postings since."""
    made: list[Path] = []
    for day in range(3):
        for number in range(4):
            name = f"p{day}{number}"
            await done(store, plain(100 + number, f"u{number + day}:spendable", id=name))
        clock.advance(86_400)
        await sealed(store, clock)
        path = tmp_path / f"{day}.gz"
        await write_archive(store, path, SIGNER, after=made[-1] if made else None)
        made.append(path)
    await done(store, plain(7, ANN, id="late"), plain(9, "u1:spendable", id="later"))
    clock.advance(86_400)
    return made


async def everything_holds(store: Store) -> None:
    """Each proof that there is."""
    for full in (False, True):
        proof = await prove(store, RATES, full=full)
        assert (proof.wrong, proof.broken, proof.drift) == ((), None, ())
        assert (proof.conserved, proof.no_overdraft) == (True, True)
        assert (await verify_last(store, SIGNER, full=full)).lines == ()
    for drawn in (0.0, 0.3, 0.7, 0.999):
        found = await verify_last(store, SIGNER, again=3, chance=partial(float, drawn))
        assert found.lines == ()
    text = io.BytesIO(b"".join([line async for line in export(store)]))
    exported = verify_lines(text, SIGNER)
    assert (exported.problems, exported.breaks) == ((), ())


async def test_what_the_archive_has_is_removed_and_the_rest_is_proved_from_there(
    store: Store, clock: ManualClock, archives: list[Path]
) -> None:
    before, counts = await heads(store), await store.ledger_counts()
    made = await trimmed(store, clock, archives[0])
    assert (made.number, made.finished, made.posting, made.file) == (1, True, 4, "0.gz")
    after = await store.ledger_counts()
    # Of four postings to four wallets the last link of each stays, and one of the other side.
    assert (made.postings, made.links) == (0, 3)
    assert (counts.links - after.links, counts.postings - after.postings) == (3, 0)
    made = await trimmed(store, clock, archives[1])
    assert (made.number, made.postings, made.links) == (2, 3, 7)
    assert await heads(store) == before
    assert [one.id for one in await store.ledger_postings()] == [
        *("p20", "p21", "p22", "p23", "late", "later")
    ]
    await everything_holds(store)


async def test_the_ledger_goes_on_as_before(
    store: Store, clock: ManualClock, archives: list[Path], tmp_path: Path
) -> None:
    await trimmed(store, clock, archives[0])
    await done(store, plain(3, "u0:spendable"), plain(-50, "u2:spendable"))
    await sealed(store, clock)
    await everything_holds(store)
    await trimmed(store, clock, archives[1])
    await trimmed(store, clock, archives[2])
    proof = await write_archive(store, tmp_path / "3.gz", SIGNER, after=archives[2])
    assert (proof.holds, proof.postings) == (True, 4)
    assert await store.ledger_moved() == []
    await everything_holds(store)


async def test_each_step_leaves_a_ledger_that_holds_and_a_trim_that_was_cut_off_goes_on(
    store: Store, clock: ManualClock, archives: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "STEP", 1)
    for path in archives[:2]:
        await cut_off_after_each_step(store, clock, path, monkeypatch)
    assert [one.finished for one in await store.ledger_trims()] == [True, True]
    assert await store.trim_postings(limit=10) == 0
    with pytest.raises(Archived, match=r"1\.gz has was removed before, by 1\.gz"):
        await trimmed(store, clock, archives[1])


async def cut_off_after_each_step(
    store: Store, clock: ManualClock, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One step, then the process is gone; and again."""
    whole, steps = store.trim_postings, 0

    async def one_step(*, limit: int) -> int:
        nonlocal steps
        if steps % 2:
            steps += 1
            raise KilledError
        steps += 1
        return await whole(limit=limit)

    with monkeypatch.context() as patched:
        patched.setattr(type(store), "trim_postings", lambda _self, *, limit: one_step(limit=limit))
        for _ in range(30):
            try:
                made = await trimmed(store, clock, path)
            except KilledError:
                await everything_holds(store)
                if not (await store.ledger_trims())[0].finished:
                    other = path.with_name("0.gz" if path.name == "1.gz" else "2.gz")
                    with pytest.raises(InvalidArgument, match="under way: finish that one first"):
                        await trimmed(store, clock, other)
                continue
            except Archived:
                return
            assert made.finished
            return
    pytest.fail("it never ended")


async def test_only_the_very_archive_goes_on_with_a_trim_that_was_cut_off(
    store: Store, clock: ManualClock, archives: list[Path], tmp_path: Path
) -> None:
    whole = tmp_path / "whole.gz"  # it ends with the same checkpoint as the last one
    await write_archive(store, whole, SIGNER)
    await trimmed(store, clock, archives[0])
    await trimmed(store, clock, archives[1])
    (last, *_) = await store.ledger_checkpoints()
    posting = last.posting or 0
    _, replay = verify_archives([archives[2]], SIGNER)
    assert replay is not None
    unsigned = replace(
        (await store.ledger_trims())[0],
        number=3,
        checkpoint=last.id,
        posting=posting,
        file="2.gz",
        archive=replay.sha256,
        kept=(await kept_hash(store, 3)).hash,
    )
    made = replace(unsigned, signature=SIGNER.sign(manifest(unsigned)))
    assert await store.begin_trim(made, keeps=0)
    with pytest.raises(InvalidArgument, match=r"a trim of 2\.gz is under way"):
        await trimmed(store, clock, whole)
    assert [one.done for one in await store.ledger_trims()] == [0, 8, 4]
    other = archives[2].rename(tmp_path / "renamed.gz")
    assert (await trimmed(store, clock, other)).finished
    await everything_holds(store)


async def test_a_trim_that_nobody_of_us_signed_goes_on_by_no_archive(
    store: Store, clock: ManualClock, archives: list[Path]
) -> None:
    (first, *_) = reversed(await store.ledger_checkpoints())
    forged = Trim(
        number=1, checkpoint=first.id, posting=first.posting or 0, until=1, at=1, file="0.gz",
        archive="ab", kept="cd", kid="k", signature="ef",
    )  # fmt: skip
    assert await store.begin_trim(forged, keeps=0)
    with pytest.raises(ChainBroken, match=r"none of our keys signed the trim of 0\.gz"):
        await trimmed(store, clock, archives[0])
    assert [one.done for one in await store.ledger_trims()] == [0]


async def test_what_somebody_else_keeps_meanwhile_is_never_missed_in_what_was_signed(
    store: Store, clock: ManualClock, archives: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = store.begin_trim

    async def later(_self: Store, made: Trim, *, keeps: int) -> bool:
        await store.keep_postings(1, ["p01"])  # another process, that looked before
        return await begin(made, keeps=keeps)

    with monkeypatch.context() as patched:
        patched.setattr(type(store), "begin_trim", later)
        with pytest.raises(StoreBusy, match="somebody else"):
            await trimmed(store, clock, archives[0])
        assert await store.ledger_trims() == []
        assert (await trimmed(store, clock, archives[0])).finished
    await store.keep_postings(1, ["p13"])
    assert [one.id for one in await store.ledger_retired(trim=1)] == ["p01"]
    await everything_holds(store)


class KilledError(Exception):
    """The process is gone."""


async def test_the_id_of_a_removed_posting_is_never_used_again(
    store: Store, clock: ManualClock, archives: list[Path]
) -> None:
    await trimmed(store, clock, archives[0])
    await trimmed(store, clock, archives[1])
    again = plain(100, "u0:spendable", id="p00")
    decided = await store.post([again])
    assert (decided[0].error, decided[0].duplicate) == (None, True)
    await store.prune_ledger(attempts_before=0, keys_before=10**15, limit=1_000)
    assert await failed(store, again, plain(5, ANN, id="p11")) == ["Archived", "Archived"]

    # Also an operation that did not ask for it as a posting is refused, by the store itself.
    unasked = op(lambda book: book.post(move(5, ANN, id="p12")), accounts={ANN, STORED_VALUE})
    with pytest.raises(StoreRejected):
        await store.post([unasked])
    known = op(lambda book: book.post(move(5, ANN, id="late")), accounts={ANN, STORED_VALUE})
    with pytest.raises(StoreRejected):
        await store.post([known])
    asked = op(lambda book: book.posting("p12"), postings={"p12"})
    with pytest.raises(Archived, match=r"posting p12 was archived .* it is in 1\.gz"):
        _must(await store.post([asked]))


def _must(decided: list[Decided]) -> None:
    for one in decided:
        if one.error is not None:
            raise one.error


async def test_windows_that_look_back_no_further_than_the_end_see_the_same(
    store: Store, clock: ManualClock, archives: list[Path]
) -> None:
    back = at(clock) - (await store.ledger_checkpoints())[-2].at
    before = [
        (await lots(store, one, back), await raised(store, one, back))
        for one in ("u1:spendable", "u3:spendable", STORED_VALUE, ANN, REVENUE)
    ]
    await trimmed(store, clock, archives[0])
    await trimmed(store, clock, archives[1])
    assert before == [
        (await lots(store, one, back), await raised(store, one, back))
        for one in ("u1:spendable", "u3:spendable", STORED_VALUE, ANN, REVENUE)
    ]


async def test_a_wallet_that_only_sank_since_was_raised_by_nothing_lately(
    store: Store, clock: ManualClock, tmp_path: Path
) -> None:
    await done(store, plain(100, ANN), plain(-30, ANN))
    await sealed(store, clock)
    path = tmp_path / "a.gz"
    await write_archive(store, path, SIGNER)
    clock.advance(7_200)
    await done(store, plain(-20, ANN))
    assert await raised(store, ANN, HOUR) == 0
    await trimmed(store, clock, path)
    assert await raised(store, ANN, HOUR) == 0
    await done(store, plain(6, ANN))
    assert await raised(store, ANN, HOUR) == 6


async def test_only_an_archive_that_follows_is_old_enough_and_holds_is_trimmed_by(
    store: Store, clock: ManualClock, archives: list[Path], tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgument, match="does not go on from the first posting"):
        await trimmed(store, clock, archives[1])
    with pytest.raises(InvalidArgument, match="is not old enough"):
        await trimmed(store, clock, archives[0], keep=4 * DAY)
    spoilt = tmp_path / "spoilt.gz"
    spoilt.write_bytes(archives[0].read_bytes()[:-30])
    with pytest.raises(InvalidArgument, match=r"does not hold \(cut\)"):
        await trimmed(store, clock, spoilt)
    with pytest.raises(InvalidArgument, match=r"does not hold \(signature\)"):
        await trim(store, archives[0], TestSigner("other"), now=lambda: at(clock), keep=0)
    assert await store.ledger_trims() == []
    await trimmed(store, clock, archives[0])
    with pytest.raises(InvalidArgument, match=r"does not go on from 0\.gz"):
        await trimmed(store, clock, archives[2])


async def test_nothing_is_removed_while_a_mismatch_stands_or_the_ledger_does_not_go_on(
    store: Store, backend: Backend, clock: ManualClock, archives: list[Path]
) -> None:
    hand = tamper(store, backend)
    before = await store.ledger_counts()
    (row,) = await store.ledger_accounts(ids=[ANN])
    hand.change_account(ANN, balance=row.balance + 1)
    with pytest.raises(ChainBroken, match="the ledger does not go on from"):
        await trimmed(store, clock, archives[0])
    hand.change_account(ANN, balance=row.balance)
    await store.record_finding("ledger.mismatch", "it stands", new_id=fresh_id())
    with pytest.raises(ChainBroken, match="does not match what was sealed"):
        await trimmed(store, clock, archives[0])
    assert await store.ledger_counts() == before
    assert await store.ledger_trims() == []


async def test_what_was_removed_is_named_with_its_archive(
    store: Store, clock: ManualClock, archives: list[Path]
) -> None:
    await trimmed(store, clock, archives[0])
    done_by = await trimmed(store, clock, archives[1])
    until = datetime.fromtimestamp(done_by.until / 1000, UTC)
    with pytest.raises(Archived, match=r"they are in 1\.gz, 0\.gz"):
        await prove_since(store, until)
    assert (await prove_since(store, until + timedelta(milliseconds=1))).holds
    with pytest.raises(Archived, match=r"is not compared: .* 1\.gz"):
        window = Window(since=until, until=until + timedelta(days=9))
        _ = [page async for page in recorded(store, window)]
    with pytest.raises(Archived, match=r"goes on from 1\.gz, so name that one"):
        await write_archive(store, archives[0].with_name("x.gz"), SIGNER)
    proofs, last = verify_archives(archives, SIGNER)
    assert all(one.holds for one in proofs)
    assert last is not None
    assert (await continued(store, last)).holds
    _, first = verify_archives(archives[:1], SIGNER)
    assert first is not None
    with pytest.raises(Archived, match=r"goes on from 1\.gz"):
        await continued(store, first)
    for turn in range(4):
        moment = clock.now() + timedelta(days=turn)
        assert (await prove_turn(store, turn_at(moment, 4 * 86_400, 86_400))).holds


async def test_a_statement_says_where_it_goes_on(
    store: Store, clock: ManualClock, archives: list[Path]
) -> None:
    assert await archived_lines(store, STORED_VALUE) is None
    await trimmed(store, clock, archives[0])
    gone = await archived_lines(store, STORED_VALUE)
    assert gone is not None
    assert (gone.number, gone.file) == (4, "0.gz")
    assert await archived_lines(store, ANN) is None
    links = await store.ledger_links(STORED_VALUE, newest=True)
    assert [one.number for one in links] == list(range(14, 3, -1))
    facts = await facts_of(store, links)
    assert [facts[one.posting]["kind"] for one in links] == ["move"] * 11


async def test_altered_trims_and_links_are_found(
    store: Store, backend: Backend, clock: ManualClock, archives: list[Path]
) -> None:
    if backend.name == "memory":
        pytest.skip("nobody else has its rows")
    await trimmed(store, clock, archives[0])
    hand = SqlTamper(store, backend)

    async def found(*statements: str) -> list[str]:
        hand.run(*statements)
        proof = await prove(store, RATES)
        verified = await verify_last(store, SIGNER, full=True)
        return [*verified.lines, *([str(proof.broken)] if proof.broken else [])]

    assert await found("update <trim> set file = 'y.gz'") == ["trim 1: signature"]
    lines = await found("update <trim> set file = '0.gz', posting = 3, done = 3")
    assert "trim 1: signature" in lines
    assert "trim 1: checkpoint" in lines
    assert "trim 1: standings" in lines
    assert await found("update <trim> set posting = 4, done = 4") == []
    (first,) = await store.ledger_links("u0:spendable", limit=1)
    lines = await found(
        f"update <link> set balance = {first.balance + 1} where account = 'u0:spendable'"
    )
    assert "trim 1: standings" in lines
    hand.run(f"update <link> set balance = {first.balance} where account = 'u0:spendable'")
    assert await found("delete from <trim>") != []


async def test_no_statement_removes_what_a_trim_does_not(
    store: Store, backend: Backend, clock: ManualClock, archives: list[Path]
) -> None:
    if backend.name == "memory":
        pytest.skip("nobody else has its rows")
    await trimmed(store, clock, archives[0])
    place = {"sqlite": "offpath_ledger_", "postgres": "offpath.ledger_"}[backend.name]
    for statement in (
        f"delete from {place}link where account = 'u0:spendable'",
        f"delete from {place}link where account = '{STORED_VALUE}' and number = 4",
        f"delete from {place}link where account = '{STORED_VALUE}' and number = 5",
        f"delete from {place}posting where id = 'p03'",
        f"delete from {place}trim",
        f"delete from {place}retired",
        f"update {place}retired set trim = 2",
        f"update {place}trim set posting = 9",
        f"update {place}trim set done = 1",
        f"insert into {place}retired (id, trim) values ('late', 1)",
        f"insert into {place}retired (id, trim, posting) values ('late', 1, '{{}}')",
        f"insert into {place}retired (id, trim) values ('no such posting', 1)",
        f"insert into {place}retired (id, trim, posting) {_whole(backend, 'late')}",
        (
            f"insert into {place}trim (number, posting, until, at, checkpoint, file, archive, "
            "kept, kid, signature) values (2, 9, 1, 1, 'no such', 'f', 'a', 'k', 'i', 's')"
        ),
    ):
        with pytest.raises(Exception, match=r"offpath|ledger"):
            backend.execute(statement)
    with pytest.raises(Exception, match=r"number that was used|ledger has this posting"):
        backend.execute(_posted_within(backend))
    await everything_holds(store)


def _whole(backend: Backend, name: str) -> str:
    """A posting as it is kept, for a trim that was begun and has signed what it keeps."""
    if backend.name == "sqlite":
        return f"select id, 1, whole from offpath_ledger_whole where id = '{name}'"
    text = "offpath.ledger_posting_text(id)"
    return f"select id, 1, {text} from offpath.ledger_posting where id = '{name}'"


def _posted_within(backend: Backend) -> str:
    """A posting with a number below the boundary, and a link behind the last one of ann."""
    if backend.name == "sqlite":
        return "insert into offpath_ledger_posting (id, meta, at, seq) values ('x', '{}', 1, 0)"
    given = "account, amount, entries, balance, raised, source, at"
    return (
        "with made as (insert into offpath.ledger_posting (id, meta, at, seq) overriding system "
        f"value values ('x', '{{}}', 1, 0) returning id) insert into offpath.ledger_link ({given}, "
        f"posting, number, prev, hash) select {given}, (select id from made), number + 1, hash, "
        f"md5(hash) || md5(prev) from offpath.ledger_link where account = '{ANN}' "
        "order by number desc limit 1"
    )


async def test_a_store_refuses_a_trim_that_does_not_follow(
    store: Store, clock: ManualClock, archives: list[Path]
) -> None:
    first = await trimmed(store, clock, archives[0])
    (_, second, _) = await store.ledger_checkpoints()
    follows = replace(first, number=2, checkpoint=second.id, posting=second.posting or 0)
    assert not await store.begin_trim(replace(follows, number=3), keeps=0)
    assert not await store.begin_trim(replace(follows, posting=7), keeps=0)
    assert not await store.begin_trim(
        replace(follows, checkpoint=first.checkpoint, posting=4), keeps=0
    )
    assert await store.begin_trim(follows, keeps=0)
    assert not await store.begin_trim(replace(follows, number=3), keeps=0)
    assert await store.trim_postings(limit=100) > 0
    assert [one.done for one in await store.ledger_trims()] == [8, 4]
