"""``offpath groups``: show, cancel."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from offpath.app import App
from offpath.cli import output
from offpath.cli.frame import command, json_option, limit_option, url_option, with_app
from offpath.cli.jobs import print_changed, rows_of
from offpath.errors import InvalidArgument, JobNotFound
from offpath.jobs.group_codecs import unsigned
from offpath.model.group import GroupRecord
from offpath.model.job import JobState, Page
from offpath.model.redact import redact
from offpath.runtime.ids import parse_id

_OPEN = (JobState.BLOCKED, JobState.QUEUED, JobState.RUNNING)
_FAILED = (JobState.DEAD, JobState.CANCELLED)


@click.group()
def groups() -> None:
    """A job and everything that it queued, as one."""


@groups.command("show")
@click.argument("group_id")
@limit_option
@url_option
@json_option
@command
def show_group(group_id: str, limit: int, url: str | None, *, as_json: bool) -> int | None:
    r"""Show a group: counts, value, open and failed members.

    GROUP_ID is the id of its first job. Of members at most --limit of each kind are listed, the
    oldest first. Secrets in the value (fields such as password or token) are hidden.

    \b
    offpath groups show 0198c0de-… --limit 10
    """

    async def work(app: App) -> None:
        group = await _group(app, group_id)
        counts = await _counts(app, group.id)
        members = {
            "open_members": await _members(app, group.id, _OPEN, limit),
            "failed_members": await _members(app, group.id, _FAILED, limit),
        }
        if as_json:
            listed = {name: _documents(page) for name, page in members.items()}
            output.print_json({**document(group, counts), **listed})
        else:
            _print_group(group, counts)
            for name, page in members.items():
                _print_members(name.replace("_", " "), group.id, page)

    return with_app(url, work)


@groups.command("cancel")
@click.argument("group_id")
@url_option
@json_option
@command
def cancel_group(group_id: str, url: str | None, *, as_json: bool) -> int | None:
    r"""Cancel a whole group.

    Waiting members end at once, running ones are told, and what would still join is cancelled
    too. Repeating it is harmless.

    \b
    offpath groups cancel 0198c0de-…
    """

    async def work(app: App) -> None:
        changed = await app.groups.cancel((await _group(app, group_id)).id)
        print_changed(changed, (), "cancelled", as_json=as_json)

    return with_app(url, work)


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
    """How many members are in each state; only states that have some."""
    counts: dict[str, int] = {}
    for one in await app.jobs.counts(group_id=group_id):
        counts[one.state.value] = counts.get(one.state.value, 0) + one.count
    return counts


async def _members(app: App, group_id: str, states: tuple[JobState, ...], limit: int) -> Page:
    return await app.groups.members(group_id, states=states, limit=limit, newest=False)


def document(group: GroupRecord, counts: dict[str, int]) -> dict[str, Any]:
    """A group as JSON: its value decoded where it is JSON, secrets hidden."""
    plain: dict[str, Any] = msgspec.to_builtins(group)
    del plain["result"]
    value = redact(output.decoded(unsigned(group.result)))
    return {**plain, "state": group_state(group), "counts": counts, "value": value}


def group_state(group: GroupRecord) -> str:
    """A group's state in a word."""
    if group.done:
        return "failed" if group.failed else "done"
    return "closing" if group.closing else "open"


def _documents(page: Page) -> dict[str, Any]:
    return {"items": [output.job_document(one) for one in page.items], "next": page.next}


def _print_group(group: GroupRecord, counts: dict[str, int]) -> None:
    known = document(group, counts)
    value = msgspec.json.encode(known["value"]).decode()
    lines = {
        "id": group.id,
        "state": f"{known['state']} ({group.open} open, {group.failed} failed)",
        "policy": group.policy.value,
        "members": ", ".join(f"{number} {state}" for state, number in counts.items()) or "-",
        "value": f"{value} (final)" if group.final else value,
    }
    for name, text in lines.items():
        click.echo(f"{name:>11}  {output.clean(text)}")


def _print_members(title: str, group_id: str, page: Page) -> None:
    if not page.items:
        return
    click.echo(f"\n{title}")
    columns, rows = rows_of(page.items)
    output.print_table(columns, rows, empty="")
    if page.next:
        click.echo(f"more: offpath jobs list --group {group_id}", err=True)
