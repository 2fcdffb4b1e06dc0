"""``offpath groups``: show, cancel."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from offpath.app import App
from offpath.cli import output
from offpath.cli.frame import limit_option, store_command
from offpath.cli.job_views import changed_jobs, job_document, job_table
from offpath.cli.selection import Selection
from offpath.cli.values import Changed, Fields, Part, Shown
from offpath.errors import InvalidArgument, JobNotFound
from offpath.jobs.values.group_codecs import unsigned
from offpath.model.group import GroupRecord
from offpath.model.job import JobState, Page
from offpath.model.redact import redact
from offpath.runtime.ids import parse_id

_OPEN = (JobState.BLOCKED, JobState.QUEUED, JobState.RUNNING)
_FAILED = (JobState.DEAD, JobState.CANCELLED)
_LABELS = 11
"""Characters of a name in a group's fields, as in a job's."""


@click.group()
def groups() -> None:
    """A job and everything that it queued, as one."""


@groups.command("show")
@click.argument("group_id")
@limit_option
@store_command
async def show_group(app: App, *, group_id: str, limit: int) -> Shown:
    r"""Show a group: counts, value, open and failed members.

    GROUP_ID is the id of its first job. Of members at most --limit of each kind are listed, the
    oldest first. Secrets in the value (fields such as password or token) are hidden.

    \b
    offpath groups show 0198c0de-… --limit 10
    """
    group = await _group(app, group_id)
    known = _document(group, await _counts(app, group.id))
    members = {
        "open_members": await _members(app, group.id, _OPEN, limit),
        "failed_members": await _members(app, group.id, _FAILED, limit),
    }
    listed = [part for name, page in members.items() for part in _member_parts(name, page)]
    more = f"more: offpath jobs list --group {group.id}"
    return Shown(
        {**known, **{name: _page(page) for name, page in members.items()}},
        [_fields(group, known), *listed],
        [more for page in members.values() if page.next],
    )


@groups.command("cancel")
@click.argument("group_id")
@store_command
async def cancel_group(app: App, *, group_id: str) -> Changed:
    r"""Cancel a whole group.

    Waiting members end at once, running ones are told, and what would still join is cancelled
    too. Repeating it is harmless.

    \b
    offpath groups cancel 0198c0de-…
    """
    changed = await app.groups.cancel((await _group(app, group_id)).id)
    return changed_jobs(changed, Selection(), "cancelled")


async def _group(app: App, given: str) -> GroupRecord:
    """The group. Raises ``JobNotFound``, and says so when a member's id was given."""
    group_id = parse_id(given, "GROUP_ID")
    found = await app.store().groups((group_id,))
    if found:
        return found[0]
    member = await app.store().get((group_id,))
    if member:
        raise InvalidArgument(
            f"{group_id} is a member of the group {member[0].group_id}: give that id"
        )
    raise JobNotFound(f"there is no group {group_id} (any more)")


async def _counts(app: App, group_id: str) -> dict[str, int]:
    """The number of members in each state; only states that have some."""
    counts: dict[str, int] = {}
    for one in await app.jobs.counts(group_id=group_id):
        counts[one.state.value] = counts.get(one.state.value, 0) + one.count
    return counts


async def _members(app: App, group_id: str, states: tuple[JobState, ...], limit: int) -> Page:
    return await app.groups.members(group_id, states=states, limit=limit, newest=False)


def _document(group: GroupRecord, counts: dict[str, int]) -> dict[str, Any]:
    """A group as JSON: its value decoded where it is JSON, secrets hidden."""
    plain: dict[str, Any] = msgspec.to_builtins(group)
    del plain["result"]
    value = redact(output.decoded(unsigned(group.result)))
    return {**plain, "state": _group_state(group), "counts": counts, "value": value}


def _group_state(group: GroupRecord) -> str:
    """A group's state in a word."""
    if group.done:
        return "failed" if group.failed else "done"
    return "closing" if group.closing else "open"


def _page(page: Page) -> dict[str, Any]:
    return {"items": [job_document(one) for one in page.items], "next": page.next}


def _fields(group: GroupRecord, known: dict[str, Any]) -> Fields:
    value = output.json_text(known["value"])
    counts = ", ".join(f"{number} {state}" for state, number in known["counts"].items())
    fields = {
        "id": group.id,
        "state": f"{known['state']} ({group.open} open, {group.failed} failed)",
        "policy": group.policy.value,
        "members": counts or "-",
        "value": f"{value} (final)" if group.final else value,
    }
    return Fields(fields, _LABELS)


def _member_parts(name: str, page: Page) -> list[Part]:
    return ["", name.replace("_", " "), job_table(page.items)] if page.items else []
