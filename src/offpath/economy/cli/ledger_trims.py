"""``offpath ledger trim`` and ``trims``: removing from the ledger what an archive has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from offpath.app import App
from offpath.cli.action_log import noting
from offpath.cli.frame import store_command
from offpath.cli.option_values import Duration
from offpath.cli.values import Listing, Said
from offpath.economy.cli.economy import economy_command
from offpath.economy.cli.ledger_keys import signer_given
from offpath.economy.cli.ledger_views import trim_shown, trims_page

if TYPE_CHECKING:
    from offpath.economy import Economy

_KEEP = 90 * 86_400.0


@click.command("trim")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--keep",
    type=Duration(0, above=True),
    metavar="DURATION",
    default=_KEEP,
    help="The time for which postings stay in the ledger.  [default: 90d]",
)
@click.option(
    "--lost",
    is_flag=True,
    help="Finish a trim that was cut off, although FILE, which it named, is no more.",
)
@economy_command
async def trim(economy: Economy, *, file: Path, keep: float, lost: bool) -> Said:
    r"""Remove from the ledger what the archive FILE has.

    FILE must hold, go on from the one that was trimmed by before, and end with a checkpoint that is
    older than --keep. Keep it: from then on it alone has these postings. Run it again when it was
    cut off: it goes on.

    \b
    offpath ledger trim 2025.gz --app shop.app:app
    """
    from offpath.economy.archives import trimmed

    signer = economy.ports.signer or signer_given()
    async with noting(
        economy.app, "ledger.trim", options={"file": file.name, "lost": lost}
    ) as told:
        done = await trimmed(economy, file, signer, keep=keep, lost=lost)
        told.count(done.postings)
    return trim_shown(done)


@click.command("trims")
@store_command
async def trims(app: App) -> Listing:
    r"""List what was removed from the ledger, by which archive.

    \b
    offpath ledger trims
    """
    return trims_page(await app.store().ledger_trims())
