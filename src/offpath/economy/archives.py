"""Archives of an economy's postings, as a host writes and proves them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Final

from msgspec import Struct

from offpath.economy.economy import Economy
from offpath.economy.ledger.archive import ArchiveProof
from offpath.economy.ledger.archive_files import verify_archives, write_archive
from offpath.economy.ledger.archive_live import Continuation, continued
from offpath.economy.ledger.removal import trim
from offpath.economy.ledger.signatures import Signer
from offpath.errors import InvalidArgument
from offpath.model import checks
from offpath.model.ledger.faults import EconomyConfigInvalid
from offpath.model.ledger.trims import Trim
from offpath.runtime.threads import in_own_thread

KEEP: Final = timedelta(days=90)
"""The time for which postings stay in the ledger, unless another is given."""


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


async def trim_postings(
    economy: Economy,
    path: str | PathLike[str],
    *,
    keep: float | timedelta = KEEP,
    lost: bool = False,
) -> Trim:
    """Remove the postings that an archive has from the ledger; what was trimmed stays proved from
    the archive, and the rest from where it ends.

    The archive must hold, go on from the one before, and have been sealed
    longer ago than ``keep``. Each step is a transaction of its own: a call that was cut off is
    finished by the next one. Raises ``InvalidArgument`` for an archive that may not be trimmed by
    (it says why), for a ``keep`` that is shorter than credits wait or windows are compared, and
    while a payout is open that was asked for before its end; ``Archived`` when it was done before;
    ``ChainBroken`` while a mismatch stands; ``EconomyConfigInvalid`` without a signer.

    With ``lost`` a call that was cut off is finished although its file is no more.
    """
    return await trimmed(economy, path, _signer(economy), keep=keep, lost=lost)


async def trimmed(
    economy: Economy,
    path: str | PathLike[str],
    signer: Signer,
    *,
    keep: float | timedelta,
    lost: bool = False,
) -> Trim:
    """The same with a signer that the economy need not have."""
    seconds, least = checks.seconds(keep, "keep"), _least(economy)
    if seconds < least:
        raise InvalidArgument(
            f"keep is at least {least:,.0f} seconds: so long credits wait or windows are compared"
        )
    await economy.app.open()
    clock = economy.app.clock
    return await trim(
        economy.app.store(),
        Path(path),
        signer,
        now=lambda: round(clock.now().timestamp() * 1_000),
        keep=round(seconds * 1_000),
        lost=lost,
    )


def _least(economy: Economy) -> float:
    """The time for which decisions and comparisons look back, in seconds."""
    settings = economy.settings
    every = settings.reconcile_every
    compared = 0.0 if every is None else settings.reconcile_lag + 2 * every
    return max(economy.rules.longest / 1_000, compared)


def _signer(economy: Economy) -> Signer:
    signer: Signer | None = economy.ports.signer
    if signer is None:
        raise EconomyConfigInvalid("archives are signed: give Economy(signer=…)")
    return signer
