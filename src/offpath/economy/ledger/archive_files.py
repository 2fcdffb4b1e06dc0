"""The files of archives: written beside, read back, and only then given their name.

So a file of that name is whole and proved, whenever the writing ended.
"""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from msgspec.structs import replace

from offpath.economy.ledger.archive import (
    ArchiveChain,
    ArchiveHead,
    ArchiveProof,
    ArchiveReplay,
    PostingLine,
    line_of,
    manifest,
)
from offpath.economy.ledger.chains import PAGE
from offpath.economy.ledger.history import all_checkpoints
from offpath.economy.ledger.mismatches import ProvedStore, unhindered
from offpath.economy.ledger.signatures import (
    NUMBERED,
    SealVerifier,
    Signer,
    signature_of,
    verify_checkpoint,
)
from offpath.errors import InvalidArgument, NotFound
from offpath.model import checks
from offpath.model.ledger.faults import Archived, ChainBroken
from offpath.model.ledger.records import Checkpoint
from offpath.runtime.threads import in_own_thread

if TYPE_CHECKING:
    from offpath.model.ledger.trims import Trim
    from offpath.store.ledger import LedgerReads

LONGEST_LINE: Final = 1 << 26
"""A line of more bytes is none of ours: a posting of the most accounts has fewer."""


async def write_archive(
    store: ProvedStore,
    path: Path,
    signer: Signer,
    *,
    before: datetime | None = None,
    after: Path | None = None,
) -> ArchiveProof:
    """Write the postings up to the last checkpoint, or the last one sealed before a time, to a new
    file, and prove it by reading it back. Nothing is removed.

    ``after`` is the archive that it goes on from; without one it begins with the first posting.
    Raises ``ChainBroken`` (there is no file then) for what does not hold and while a mismatch
    stands, ``NotFound`` without a checkpoint, and ``InvalidArgument`` for a file that is there or
    cannot be written, for an archive that does not hold, and when nothing was posted in between;
    ``Archived`` when what it would begin with was removed from the ledger.

    The same postings give the same lines. So while a trim was begun that has removed nothing, an
    archive without ``before`` ends where that one's did: in place of one that was lost.
    """
    await unhindered(store)
    _new(path)
    opened = None if after is None else await in_own_thread(partial(archived_in, after, signer))
    trims = await store.ledger_trims()
    begun = None if before is not None else _begun(trims, opened)
    sealed = await _sealed(store, signer, before, begun)
    head = ArchiveHead(after=None if opened is None else opened.head.sealed, sealed=sealed)
    gone = next((one for one in trims if not one.untouched), None)
    if gone is not None and head.span[0] < gone.posting:
        raise Archived(
            f"the ledger has no posting before {gone.checkpoint} any more: an archive goes on "
            f"from {gone.file}, so name that one"
        )
    if head.span[0] >= head.span[1]:
        raise InvalidArgument(f"nothing was posted up to {sealed.id} that is to be archived")
    with _told(path), _part_of(path) as file:
        # Closed before the file below it, also where a page is refused.
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
            async for page in _pages(store, head, opened, signer):
                # Packing takes milliseconds, the disk may take longer: the loop turns meanwhile.
                await in_own_thread(partial(packed.write, page))
        await in_own_thread(partial(_kept, file))
        return await in_own_thread(partial(_proved, Path(file.name), path, signer))


def verify_archives(
    paths: Sequence[Path], keys: SealVerifier | None
) -> tuple[list[ArchiveProof], ArchiveReplay | None]:
    """The proofs of archives that follow one another in this order, and the replay of the last.

    Without ``keys`` no signature is looked at. It blocks. Raises ``MalformedOperation`` for a file
    that is not an archive, and ``InvalidArgument`` for one that cannot be read.
    """
    chain, proofs = ArchiveChain(keys), list[ArchiveProof]()
    for path in paths:
        with _unpacked(path) as lines:
            proofs.append(chain.take(lines))
    return proofs, chain.last


def _new(path: Path) -> None:
    if path.exists():
        raise InvalidArgument(f"{path} is there already: an archive is never written over")


def _begun(trims: Sequence[Trim], opened: ArchiveReplay | None) -> Trim | None:
    """The trim that was begun and has removed nothing, if an archive from there may be its own."""
    last = next(iter(trims), None)
    if last is None or not last.untouched:
        return None
    return last if opened is None or (opened.head.sealed.posting or 0) < last.posting else None


async def _sealed(
    reads: LedgerReads, signer: Signer, before: datetime | None, begun: Trim | None
) -> Checkpoint:
    """The last checkpoint, the last one from before a time, or that of a trim; if it is ours."""
    last = None if before is None else round(checks.aware(before, "before").timestamp() * 1_000)
    known = [
        one
        for one in await all_checkpoints(reads)
        if (last is None or one.at < last) and (begun is None or one.id == begun.checkpoint)
    ]
    if not known:
        when = "" if before is None else f" before {before.isoformat()}"
        raise NotFound(f"no checkpoint was sealed{when}: an archive ends at one")
    found = known[-1]
    if found.v < NUMBERED or not verify_checkpoint(found, signer):
        raise ChainBroken(
            f"checkpoint {found.id} does not vouch for an archive: none of our keys signed it, or "
            f"it is older than version {NUMBERED}"
        )
    return found


async def _pages(
    reads: LedgerReads, head: ArchiveHead, opened: ArchiveReplay | None, signer: Signer
) -> AsyncIterator[bytes]:
    """The lines, by pages. Raises ``ChainBroken`` in the place of the last one."""
    replay, page = ArchiveReplay(head), [line_of(head)]
    for standing in () if opened is None else opened.standings():
        page.append(line_of(standing))
        replay.open(standing, page[-1])
    yield b"".join(page)
    after, until = head.span
    while after < until and (postings := await reads.ledger_postings(after=after, limit=PAGE)):
        page = []
        for posting in postings:
            if posting.seq <= until:
                page.append(line_of(PostingLine(posting=posting)))
                replay.post(posting, page[-1])
        yield b"".join(page)
        after = postings[-1].seq
    end = replay.end(signer.kid)
    end = replace(end, signature=await signature_of(signer, manifest(head, end)))
    replay.close(end, signer)
    _must_hold(replay.proof(), "these postings do not lead from checkpoint to checkpoint")
    yield line_of(end)


def archived_in(path: Path, keys: SealVerifier) -> ArchiveReplay:
    """The replay of an archive that holds. It blocks. Raises ``InvalidArgument`` for another."""
    (proof,), replay = verify_archives([path], keys)
    if replay is None or not proof.holds:
        raise InvalidArgument(f"{path} does not hold ({_first(proof)}): nothing goes on from it")
    return replay


def _proved(part: Path, path: Path, keys: SealVerifier) -> ArchiveProof:
    """The proof of what was written, read back; only then it has its name."""
    (proof,), _ = verify_archives([part], keys)
    _must_hold(proof, f"{path} was not read back as it was written")
    part.replace(path)
    _synced(path.parent)  # else a power cut may leave the name on nothing
    return proof


def _must_hold(proof: ArchiveProof, what: str) -> None:
    if not proof.holds:
        raise ChainBroken(f"{what} ({_first(proof)}): nothing is archived")


def _first(proof: ArchiveProof) -> str:
    return next(iter((*proof.problems, *map(str, proof.breaks), *proof.wrong)), "")


@contextmanager
def _unpacked(path: Path) -> Iterator[Iterator[bytes]]:
    with _told(path), gzip.open(path, "rb") as file:
        # A bound, since a small file may unpack to a line of any length.
        yield iter(lambda: file.readline(LONGEST_LINE), b"")


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Raise what the disk refuses as an error of ours. A file that was spoilt is none of these."""
    try:
        yield
    except gzip.BadGzipFile:
        raise
    except OSError as error:
        raise InvalidArgument(f"{path}: {error.strerror or error}") from error


@contextmanager
def _part_of(path: Path) -> Iterator[BinaryIO]:
    """A new file beside it, which is gone in the end unless it got its name."""
    number, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".part", dir=path.parent)
    try:
        with open(name, "wb", opener=lambda *_: number) as file:
            yield file
    finally:
        Path(name).unlink(missing_ok=True)


def _kept(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _synced(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
