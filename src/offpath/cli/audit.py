"""``offpath audit``: who changed what, by the dashboard, its API and the commands."""

from __future__ import annotations

import click

from offpath.app import App
from offpath.cli import output
from offpath.cli.frame import (
    Filters,
    after_option,
    filters,
    limit_option,
    only,
    store_command,
)
from offpath.cli.values import Fields, Listing, Part, Quote, Shown, Table, next_of
from offpath.model.action import ActionFilter, ActionRecord, ActionState
from offpath.model.brief import Kind
from offpath.operating import actions
from offpath.operating.documents.actions import describe, in_words
from offpath.operating.short_ids import page_start
from offpath.store.capabilities import Profile
from offpath.store.partial import require


@click.group()
def audit() -> None:
    """Actions of operators: who changed what, when, and how it went."""


@audit.command("list")
@filters(
    only("--state", "actions in this state", type=click.Choice([str(s) for s in ActionState])),
    only("--verb", "actions of this verb (job.redrive, queue.pause, …)"),
    only("--actor", "actions of this person"),
)
@limit_option
@after_option()
@store_command
async def list_actions(app: App, *, limit: int, after: str | None, where: Filters) -> Listing:
    r"""List actions, newest first.

    \b
    offpath audit list --actor ann
    offpath audit list --verb job.redrive --state running
    """
    chosen = ActionFilter(
        states=tuple(ActionState(one) for one in where.get("state", ())),
        verbs=tuple(where.get("verb", ())),
        actors=tuple(where.get("actor", ())),
    )
    require(app.store().capabilities, Profile.OPERATING)
    start = await page_start(app, Kind.ACTION, after)
    found = await app.store().actions(chosen, limit=limit, after=start)
    following = next_of(found, limit, lambda one: one.id)
    return Listing([describe(one) for one in found], _table(found), following)


@audit.command("show")
@click.argument("action_id")
@store_command
async def show_action(app: App, *, action_id: str) -> Shown:
    r"""Show one action: its target, its options, and how it went.

    \b
    offpath audit show 0198c0de-…
    """
    require(app.store().capabilities, Profile.OPERATING)
    found = await actions.action(app, action_id)
    return Shown(describe(found), _parts(found))


def _table(found: list[ActionRecord]) -> Table:
    columns = ("id", "verb", "state", "who", "from", "when", "outcome")
    rows = [
        (
            one.id,
            one.verb,
            one.state.value,
            one.actor,
            one.via,
            output.ago(one.at),
            in_words(one),
        )
        for one in found
    ]
    return Table(columns, rows, "nobody has changed anything that is kept", brief=True, single=True)


def _parts(one: ActionRecord) -> list[Part]:
    told = describe(one)
    fields = {
        "id": one.id,
        "verb": one.verb,
        "state": one.state.value,
        "who": f"{one.actor}, by {one.via}",
        "asked": output.when(one.at),
        "ended": output.when(one.finished_at) if one.finished_at else "-",
        "why": told.note or "-",
        "outcome": told.text,
    }
    target = output.json_text(told.target)
    options = [Quote("options", output.json_text(told.options))] if told.options else []
    return [Fields(fields), Quote("target", target), *options]
