"""Archives of an economy's postings, as a host writes and proves them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from os import PathLike
from pathlib import Path

from msgspec import Struct

from offpath.economy.economy import Economy
from offpath.economy.ledger.archive import ArchiveProof
from offpath.economy.ledger.archive_files import verify_archives, write_archive
from offpath.economy.ledger.archive_live import Continuation, continued
from offpath.economy.ledger.signatures import Signer
from offpath.model.ledger.faults import EconomyConfigInvalid
from offpath.runtime.threads import in_own_thread


class ProvedArchives(Struct, frozen=True, kw_only=True):
    """The proofs of archives that follow one another, and of the ledger behind the last."""

    archives: tuple[ArchiveProof, ...]
    ledger: Continuation | None
    """None when the last archive could not be read at all."""

    @property
    def holds(self) -> bool:
        """True if each holds and the ledger goes on from the last one."""
        live = self.ledger
        return live is not None and live.holds and all(one.holds for one in self.archives)


async def archive_postings(
    economy: Economy,
    path: str | PathLike[str],
    *,
    before: datetime | None = None,
    after: str | PathLike[str] | None = None,
) -> ArchiveProof:
    """Write the postings up to the last checkpoint, or the last one sealed before a time, to a new
    file: packed with gzip, signed, read back and proved. Nothing is removed from the ledger.

    ``after`` is the archive that this one goes on from; without one it begins with the first
    posting. Raises ``ChainBroken`` for what does not hold and while a mismatch stands, ``NotFound``
    without a checkpoint, ``EconomyConfigInvalid`` without a signer, and ``InvalidArgument`` for a
    file that is there or cannot be written, for an ``after`` that does not hold, and when there is
    nothing to archive.
    """
    signer = _signer(economy)
    await economy.app.open()
    following = None if after is None else Path(after)
    store = economy.app.store()
    return await write_archive(store, Path(path), signer, before=before, after=following)


async def prove_archives(economy: Economy, paths: Sequence[str | PathLike[str]]) -> ProvedArchives:
    """Prove archives that follow one another in this order, each by itself and from the one before
    to the next, and that the ledger goes on from the last one: together they are each whole chain.

    Raises ``MalformedOperation`` for a file that is not an archive, and ``EconomyConfigInvalid``
    without a signer.
    """
    signer = _signer(economy)
    await economy.app.open()
    work = partial(verify_archives, [Path(one) for one in paths], signer)
    proofs, last = await in_own_thread(work)
    live = None if last is None else await continued(economy.app.store(), last)
    return ProvedArchives(archives=tuple(proofs), ledger=live)


def _signer(economy: Economy) -> Signer:
    signer: Signer | None = economy.ports.signer
    if signer is None:
        raise EconomyConfigInvalid("archives are signed: give Economy(signer=…)")
    return signer
