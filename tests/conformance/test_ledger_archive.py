"""Archives of postings: written from every store, proved by themselves and beside the ledger."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from offpath.economy.ledger import archive_files, chains
from offpath.economy.ledger.archive import ArchiveProof
from offpath.economy.ledger.archive_files import verify_archives, write_archive
from offpath.economy.ledger.archive_live import continued
from offpath.economy.ledger.checkpoint import seal
from offpath.economy.testing import TestSigner
from offpath.errors import InvalidArgument, NotFound
from offpath.model.ledger.faults import ChainBroken, MalformedOperation
from offpath.runtime.clock import ManualClock
from offpath.runtime.threads import in_own_thread
from offpath.store.protocol import Store
from tests.conformance.backends import Backend
from tests.conformance.builders import START, fresh_id
from tests.conformance.ledger_builders import ANN, BOB, NOW, STORED_VALUE, done, heads, plain
from tests.conformance.ledger_tamper import tamper

pytestmark = pytest.mark.needs("ledger")

SIGNER = TestSigner()
HOUR = timedelta(hours=1)


async def sealed(store: Store, clock: ManualClock) -> str:
    """Seal now."""
    at = NOW + round((clock.now() - START).total_seconds() * 1000)
    made = await seal(store, SIGNER, new_id=fresh_id, now=lambda: at)
    assert made is not None
    return made.id


@pytest.fixture
async def checkpoints(store: Store, clock: ManualClock) -> list[str]:
    """A ledger of three hours, sealed at the end of each, and a posting since."""
    made = []
    for hour in range(3):
        for number in range(4):
            await done(store, plain(100 + number, f"u{number + hour}:spendable"))
        clock.advance(3_600)
        made.append(await sealed(store, clock))
    await done(store, plain(7, ANN))
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for archives alone."""
    made = tmp_path / "archives"
    made.mkdir()
    return made


def lines_of(path: Path) -> list[bytes]:
    with gzip.open(path) as file:
        return file.readlines()


def written(path: Path, lines: list[bytes]) -> ArchiveProof:
    """The proof of a file with these lines."""
    with gzip.open(path, "wb") as file:
        file.writelines(lines)
    return proof_of(path)


def proof_of(*paths: Path) -> ArchiveProof:
    """The proof of the last of these archives."""
    return verify_archives(paths, SIGNER)[0][-1]


async def test_an_archive_has_what_was_posted_up_to_the_last_checkpoint(
    store: Store, checkpoints: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_files, "PAGE", 5)
    before = await heads(store)
    proof = await write_archive(store, folder / "all.gz", SIGNER)
    assert (proof.holds, proof.postings, proof.links) == (True, 12, 24)
    assert proof.sealed is not None
    assert (proof.after, proof.sealed.id) == (None, checkpoints[-1])
    assert proof_of(folder / "all.gz") == proof
    assert await heads(store) == before
    assert [one.name for one in folder.iterdir()] == ["all.gz"]


async def test_archives_follow_one_another_and_the_ledger_follows_the_last(
    store: Store, checkpoints: list[str], folder: Path
) -> None:
    first, second = folder / "1.gz", folder / "2.gz"
    one = await write_archive(store, first, SIGNER, before=START + 2 * HOUR)
    two = await write_archive(store, second, SIGNER, after=first)
    assert one.sealed is not None
    assert two.after is not None
    assert (one.sealed.id, two.after.id) == (checkpoints[0], checkpoints[0])
    assert (one.postings, two.postings, two.accounts) == (4, 8, 7)
    proofs, last = verify_archives([first, second], SIGNER)
    assert proofs == [one, two]
    assert last is not None
    found = await continued(store, last)
    assert (found.holds, found.postings, found.checkpoint) == (True, 1, checkpoints[-1])


async def test_archives_in_the_wrong_order_have_a_gap(
    store: Store, checkpoints: list[str], folder: Path
) -> None:
    first, second, third = (folder / f"{one}.gz" for one in "123")
    assert checkpoints
    await write_archive(store, first, SIGNER, before=START + 2 * HOUR)
    await write_archive(store, second, SIGNER, after=first, before=START + 3 * HOUR)
    await write_archive(store, third, SIGNER, after=second)
    assert proof_of(first, second, third).holds
    assert proof_of(first, third).problems == ("gap",)
    assert proof_of(second, first).problems == ("gap",)


async def test_without_a_checkpoint_nothing_is_archived(store: Store, folder: Path) -> None:
    await done(store, plain(5))
    with pytest.raises(NotFound, match="no checkpoint was sealed: an archive ends at one"):
        await write_archive(store, folder / "a.gz", SIGNER)
    assert list(folder.iterdir()) == []


async def test_a_checkpoint_of_somebody_else_ends_no_archive(
    store: Store, checkpoints: list[str], folder: Path
) -> None:
    with pytest.raises(ChainBroken, match=f"{checkpoints[-1]} does not vouch"):
        await write_archive(store, folder / "a.gz", TestSigner("other"))
    with pytest.raises(NotFound, match="before"):
        await write_archive(store, folder / "a.gz", SIGNER, before=START)
    with pytest.raises(InvalidArgument, match="zone"):
        await write_archive(store, folder / "a.gz", SIGNER, before=START.replace(tzinfo=None))


async def test_an_archive_is_never_written_over_and_never_empty(
    store: Store, checkpoints: list[str], folder: Path
) -> None:
    whole = folder / "a.gz"
    assert checkpoints
    await write_archive(store, whole, SIGNER)
    content = whole.read_bytes()
    with pytest.raises(InvalidArgument, match="is there already"):
        await write_archive(store, whole, SIGNER)
    with pytest.raises(InvalidArgument, match="nothing was posted up to"):
        await write_archive(store, folder / "b.gz", SIGNER, after=whole)
    assert whole.read_bytes() == content


async def test_what_the_disk_refuses_is_told(
    store: Store, checkpoints: list[str], folder: Path
) -> None:
    assert checkpoints
    with pytest.raises(InvalidArgument, match=r"nowhere/a\.gz: No such file"):
        await write_archive(store, folder / "nowhere" / "a.gz", SIGNER)
    with pytest.raises(InvalidArgument, match=r"gone\.gz: No such file"):
        await write_archive(store, folder / "a.gz", SIGNER, after=folder / "gone.gz")
    with pytest.raises(InvalidArgument, match="directory"):
        proof_of(folder)


async def test_a_ledger_that_was_altered_is_not_archived(
    store: Store, backend: Backend, checkpoints: list[str], folder: Path
) -> None:
    assert checkpoints
    await tamper(store, backend).rewrite("u0:spendable", 1, -1)
    with pytest.raises(ChainBroken, match="nothing is archived"):
        await write_archive(store, folder / "a.gz", SIGNER)
    assert list(folder.iterdir()) == []


async def test_nothing_is_archived_while_a_mismatch_stands(
    store: Store, checkpoints: list[str], folder: Path
) -> None:
    assert checkpoints
    await store.record_finding("ledger.mismatch", "leaves", new_id=fresh_id())
    with pytest.raises(ChainBroken, match="does not match what was sealed"):
        await write_archive(store, folder / "a.gz", SIGNER)


async def test_who_is_killed_while_writing_leaves_no_archive(
    store: Store, checkpoints: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each page, and before the name: a run behind it begins anew and is whole."""
    assert checkpoints
    monkeypatch.setattr(archive_files, "PAGE", 5)
    whole, calls = folder / "a.gz", 0

    async def until(work: Callable[[], Any]) -> Any:
        nonlocal calls
        calls -= 1
        if calls < 0:
            raise KeyboardInterrupt
        return await in_own_thread(work)

    monkeypatch.setattr(archive_files, "in_own_thread", until)
    for last in range(7):
        calls = last
        with pytest.raises(KeyboardInterrupt):
            await write_archive(store, whole, SIGNER)
        assert list(folder.iterdir()) == []
    calls = 7
    assert (await write_archive(store, whole, SIGNER)).holds


async def test_every_altered_line_of_an_archive_is_found(
    store: Store, checkpoints: list[str], folder: Path
) -> None:
    first, second, bad = (folder / f"{one}.gz" for one in ("1", "2", "bad"))
    assert checkpoints
    await write_archive(store, first, SIGNER, before=START + 2 * HOUR)
    await write_archive(store, second, SIGNER, after=first)
    lines = lines_of(second)
    for at, line in enumerate(lines):
        gone = [*lines[:at], *lines[at + 1 :]]
        if at:
            assert not written(bad, gone).holds, line
            assert not written(bad, [*lines[: at + 1], line, *lines[at + 1 :]]).holds, line
        for altered in _altered(line):
            try:
                assert not written(bad, [*lines[:at], altered, *lines[at + 1 :]]).holds, altered
            except MalformedOperation:
                continue


def _altered(line: bytes) -> list[bytes]:
    """The line with each of its numbers raised, and each of its texts made others."""
    found = []
    whole = msgspec.json.decode(line)

    def walk(node: Any) -> None:
        for key, value in list(node.items()) if isinstance(node, dict) else enumerate(node):
            if isinstance(value, dict | list):
                walk(value)
                continue
            others = (
                (value + 1, 1 << 70) if isinstance(value, int) else (f"{value or ''}0", "z" * 64)
            )
            for other in others:
                node[key] = other
                found.append(msgspec.json.encode(whole) + b"\n")
            node[key] = value

    walk(whole)
    return found


async def test_a_link_on_a_head_that_is_none_is_found(
    store: Store, checkpoints: list[str], folder: Path
) -> None:
    """Made-up accounts in front are a finding, and not an error."""
    first, second, bad = (folder / f"{one}.gz" for one in ("1", "2", "bad"))
    assert checkpoints
    await write_archive(store, first, SIGNER, before=START + 2 * HOUR)
    await write_archive(store, second, SIGNER, after=first)
    lines = lines_of(second)
    head = next(
        msgspec.json.decode(line)["head"]
        for line in lines
        if b'"type":"account"' in line and STORED_VALUE.encode() in line
    ).encode()
    found = written(bad, [line.replace(head, b"z" * 64) for line in lines])
    assert "tampered-hash" in {one.reason for one in found.breaks}


async def test_a_file_that_was_cut_or_spoilt_is_found(
    store: Store, checkpoints: list[str], folder: Path
) -> None:
    whole, bad = folder / "a.gz", folder / "bad.gz"
    assert checkpoints
    await write_archive(store, whole, SIGNER)
    content = whole.read_bytes()
    for kept in (0, 5, len(content) // 2, len(content) - 9, len(content) - 1):
        bad.write_bytes(content[:kept])
        assert "cut" in proof_of(bad).problems, kept
    for place in range(12, len(content), 97):
        bad.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            assert not proof_of(bad).holds, place
        except MalformedOperation:
            continue
    assert "cut" in written(bad, [*lines_of(whole), b"{}\n"]).problems
    assert "cut" in written(bad, [*lines_of(whole)[:-1], lines_of(whole)[-1].strip()]).problems
    for foreign in (b"no archive\n", b"{}\n", lines_of(whole)[1], b"\xff\xfe\n"):
        with pytest.raises(MalformedOperation, match="line 1"):
            written(bad, [foreign])


async def test_a_line_without_end_takes_a_bounded_memory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_files, "LONGEST_LINE", 1 << 10)
    bomb = folder / "bomb.gz"
    assert written(bomb, [b" " * (1 << 20)]).problems == ("cut",)


async def test_another_signature_is_not_ours(
    store: Store, checkpoints: list[str], folder: Path
) -> None:
    whole = folder / "a.gz"
    assert checkpoints
    await write_archive(store, whole, SIGNER)
    (proof,), _ = verify_archives([whole], TestSigner("other"))
    assert proof.problems == ("signature",)
    (proof,), _ = verify_archives([whole], None)
    assert proof.holds


async def test_a_ledger_that_does_not_go_on_from_its_archive_is_found(
    store: Store, backend: Backend, clock: ManualClock, checkpoints: list[str], folder: Path
) -> None:
    whole, hand = folder / "a.gz", tamper(store, backend)
    assert checkpoints
    await write_archive(store, whole, SIGNER)
    last = verify_archives([whole], SIGNER)[1]
    assert last is not None
    await done(store, plain(5, "u0:spendable"), plain(6, BOB))
    assert (await continued(store, last)).holds
    await hand.rewrite("u0:spendable", 1, -9)
    found = await continued(store, last)
    assert [one.account for one in found.breaks] == ["u0:spendable"]
    hand.remove_checkpoints()
    assert not (await continued(store, last)).sealed
    assert chains.PAGE
    assert clock
