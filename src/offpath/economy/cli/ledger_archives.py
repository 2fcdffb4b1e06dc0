"""``offpath ledger archive`` and ``verify-archive``: postings in files that prove themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from offpath.app import App
from offpath.cli.action_log import noting
from offpath.cli.apps import store_app
from offpath.cli.frame import option_group, options, place_options, plain_command, store_command
from offpath.cli.option_values import iso_time
from offpath.cli.values import Shown
from offpath.economy.cli.ledger_keys import keys_option, signer_given
from offpath.economy.cli.ledger_views import archives_shown

if TYPE_CHECKING:
    from offpath.economy.ledger.archive import ArchiveProof, ArchiveReplay
    from offpath.economy.ledger.signatures import Ed25519Signer, SealVerifier

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("archive")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--before",
    callback=iso_time,
    metavar="TIME",
    help="End with the last checkpoint that was sealed before then; without it, with the last one.",
)
@click.option(
    "--after",
    type=_FILE,
    metavar="FILE",
    help="The archive that this one goes on from; without it, it begins with the first posting.",
)
@option_group("signer", signer_given)
@store_command
async def archive(
    app: App, *, file: Path, before: datetime | None, after: Path | None, signer: Ed25519Signer
) -> Shown:
    r"""Write the postings up to a checkpoint to FILE.

    FILE is packed with gzip, signed, read back and proved before it has its name. Nothing is
    removed from the ledger.

    \b
    offpath ledger archive 2025.gz --before 2026-01-01T00:00Z
    offpath ledger archive 2026.gz --before 2027-01-01T00:00Z --after 2025.gz
    """
    from offpath.economy.ledger.archive_files import write_archive

    named = {"file": file.name}
    async with noting(app, "ledger.archive", options=named, if_possible=True) as told:
        proof = await write_archive(app.store(), file, signer, before=before, after=after)
        told.count(proof.postings)
    return archives_shown([file], [proof], None)


@click.command("verify-archive")
@click.argument("files", type=_FILE, nargs=-1, required=True, metavar="FILE...")
@click.option("--offline", is_flag=True, help="Prove the files alone, without a database.")
@keys_option
@options(*place_options)
@plain_command
def verify_archive(
    files: tuple[Path, ...],
    keys: SealVerifier,
    of_app: str | None,
    url: str | None,
    *,
    offline: bool,
) -> Shown:
    r"""Prove archives and what comes behind them.

    Each by itself, and that the ledger goes on from the last one. Give them in their order: each
    must go on from the one before. Exit code 1 when one does not hold.

    \b
    offpath ledger verify-archive 2025.gz 2026.gz
    offpath ledger verify-archive 2025.gz --offline --public-key …
    """
    from offpath.economy.ledger.archive_files import verify_archives

    proofs, last = verify_archives(files, keys)
    if offline or last is None:
        return archives_shown(files, proofs, None)
    return asyncio.run(_beside(store_app(url, of_app), files, proofs, last))


async def _beside(
    opened: AbstractAsyncContextManager[App],
    files: Sequence[Path],
    proofs: list[ArchiveProof],
    last: ArchiveReplay,
) -> Shown:
    from offpath.economy.ledger.archive_live import continued

    async with opened as app:
        return archives_shown(files, proofs, await continued(app.store(), last))
