"""``offpath groups``: list, show, cancel."""

from __future__ import annotations

from collections.abc import Sequence

import click

from offpath.app import App
from offpath.cli import output
from offpath.cli.action_log import named, recorded
from offpath.cli.frame import after_option, limit_option, store_command
from offpath.cli.job_views import changed_jobs, job_table
from offpath.cli.selection import Selection
from offpath.cli.values import Cell, Changed, Fields, Listing, Part, Shown, Table
from offpath.operating import list_views, views
from offpath.operating.documents.groups import GroupStanding
from offpath.operating.documents.jobs import JobPage
from offpath.operating.documents.lists import GroupBriefDocument
from offpath.operating.short_ids import group_start
from offpath.store.capabilities import Profile
from offpath.store.partial import require

_LABELS = 11
"""Characters of a name in a group's fields, as in a job's."""


@click.group()
def groups() -> None:
    """A job and everything that it queued, as one."""


@groups.command("list")
@click.option("--open", "unended", is_flag=True, help="Only groups with jobs that have not ended.")
@limit_option
@after_option()
@store_command
async def list_groups(app: App, *, unended: bool, limit: int, after: str | None) -> Listing:
    r"""List groups of several jobs, newest first.

    \b
    offpath groups list --open
    """
    require(app.store().capabilities, Profile.OPERATING)
    start = await group_start(app, after)
    page = await list_views.groups(app, unended=unended or None, limit=limit, after=start)
    empty = "no group is open" if unended else "no job has queued others"
    return Listing(page.items, _group_table(page.items, empty), next=page.next)


@groups.command("show")
@click.argument("group_id")
@limit_option
@store_command
async def show_group(app: App, *, group_id: str, limit: int) -> Shown:
    r"""Show a group: counts, value, open and failed members.

    GROUP_ID is the id of its first job. Of members at most --limit of each kind are listed, the
    oldest first; of failed ones those that failed by themselves come before what died of them.
    Secrets in the value (fields such as password or token) are hidden.

    \b
    offpath groups show 0198c0de-… --limit 10
    """
    standing = await views.group(app, group_id, limit=limit)
    pages = {"open members": standing.open_members, "failed members": standing.failed_members}
    listed = [part for name, page in pages.items() for part in _member_parts(name, page)]
    more = f"more: offpath jobs list --group {standing.id}"
    return Shown(
        standing, [_fields(standing), *listed], [more for page in pages.values() if page.next]
    )


@groups.command("cancel")
@click.argument("group_id")
@store_command
@recorded("group.cancel", named("group_id", "id"))
async def cancel_group(app: App, *, group_id: str) -> Changed:
    r"""Cancel a whole group.

    Waiting members end at once, running ones are told, and what would still join is cancelled
    too. Repeating it is harmless.

    \b
    offpath groups cancel 0198c0de-…
    """
    changed = await app.groups.cancel((await views.group_record(app, group_id)).id)
    return changed_jobs(changed, Selection(), "cancelled")


def _group_table(found: Sequence[GroupBriefDocument], empty: str) -> Table:
    columns = ("id", "task", "state", "open", "failed", "policy", "begun")
    rows: list[tuple[Cell, ...]] = [
        (
            one.id,
            one.task or "(its root is gone)",
            one.state,
            one.open,
            one.failed,
            one.policy.value,
            output.ago(one.enqueued_at) if one.enqueued_at else "",
        )
        for one in found
    ]
    return Table(columns, rows, empty, brief=True)


def _fields(known: GroupStanding) -> Fields:
    counts = ", ".join(f"{number} {state}" for state, number in known.counts.items())
    fields = {
        "id": known.id,
        "state": f"{known.state} ({known.open} open, {known.failed} failed)",
        "policy": known.policy.value,
        "members": counts or "-",
        "value": _value(known),
    }
    return Fields(fields, _LABELS)


def _value(known: GroupStanding) -> str:
    """The value. It looks like an answer, also where the job has died that was to give that."""
    value = output.json_text(known.value)
    if known.final:
        return f"{value} (final)"
    if known.value is None or not known.failed:
        return value
    return f"{value} (without what failed members were to give)"


def _member_parts(name: str, page: JobPage) -> list[Part]:
    return ["", name, job_table(page.items)] if page.items else []
