"""``offpath inbox``: list, show, revive, discard."""

from __future__ import annotations

from typing import Any

import click

from offpath.app import App
from offpath.cli.messages import (
    STATES,
    ask,
    change,
    chosen,
    one_of,
    print_changed,
    print_message,
    print_page,
)
from offpath.cli.older_frame import (
    after_option,
    command,
    json_option,
    limit_option,
    options,
    url_option,
    with_app,
    yes_option,
)
from offpath.errors import InvalidArgument
from offpath.model.job import DeadReason
from offpath.model.message import Box

_filters = options(
    click.option("--source", multiple=True, help="Name of a source; may be repeated."),
    click.option("--key", multiple=True, help="A key; may be repeated."),
    click.option("--reason", multiple=True, help="exhausted, aborted, rejected, bad_input, …"),
)
_all = click.option("--all", "everything", is_flag=True, help="All dead messages of the inbox.")
_most = click.option("--limit", type=click.IntRange(min=1), help="At most this many, oldest first.")


@click.group()
def inbox() -> None:
    """Messages that were taken in: list, show, revive, discard."""


@inbox.command("list")
@click.option("--state", multiple=True, type=STATES, help="In this state; may be repeated.")
@_filters
@limit_option
@after_option
@url_option
@json_option
@command
def list_inbox(
    limit: int,
    after: str | None,
    url: str | None,
    *,
    as_json: bool,
    **where: Any,  # noqa: ANN401 - click passes the filters
) -> int | None:
    r"""List messages, newest first. Payloads are shown by `show` only.

    \b
    offpath inbox list --state dead
    offpath inbox list --source stripe --key evt_1
    """

    async def work(app: App) -> None:
        page = await app.messages.find(limit=limit, after=after, box=Box.IN, **chosen(where))
        print_page(page, Box.IN, as_json=as_json)

    return with_app(url, work)


@inbox.command("show")
@click.argument("message_id", metavar="ID")
@url_option
@json_option
@command
def show_inbox(message_id: str, url: str | None, *, as_json: bool) -> int | None:
    r"""Show one message with its payload, headers and last failure.

    Secrets (fields such as password or token) are hidden.

    \b
    offpath inbox show 0198c0de-…
    """

    async def work(app: App) -> None:
        print_message(await one_of(app, Box.IN, message_id), as_json=as_json)

    return with_app(url, work)


@inbox.command("revive")
@click.argument("ids", metavar="[ID]…", nargs=-1)
@_filters
@click.option("--rejected", is_flag=True, help="Those that a handler rejected, and only those.")
@_all
@_most
@yes_option
@url_option
@json_option
@command
def revive_inbox(
    ids: tuple[str, ...],
    limit: int | None,
    url: str | None,
    *,
    rejected: bool,
    everything: bool,
    yes: bool,
    as_json: bool,
    **where: Any,  # noqa: ANN401 - click passes the filters
) -> int | None:
    r"""Put dead messages back as fresh.

    Due at once, attempt 1, the oldest first. Those that a handler rejected only by id or with
    --rejected.

    \b
    offpath inbox revive 0198c0de-…
    offpath inbox revive --source stripe --yes
    offpath inbox revive --source stripe --rejected --yes
    """
    filters = chosen(where)
    if rejected:
        if filters.get("reasons"):
            raise InvalidArgument("give --rejected or --reason, not both")
        filters["reasons"] = (DeadReason.REJECTED,)
    ask(ids, filters, "Revive", everything=everything, yes=yes, as_json=as_json)

    async def work(app: App) -> int:
        act = app.messages.revive
        if ids:
            changed = await change(app, Box.IN, ids, act)
        else:
            changed = await change(app, Box.IN, (), act, limit=limit, **filters)
        return print_changed(changed, ids, "pending again", as_json=as_json)

    return with_app(url, work)


@inbox.command("discard")
@click.argument("ids", metavar="[ID]…", nargs=-1)
@_filters
@_all
@_most
@yes_option
@url_option
@json_option
@command
def discard_inbox(
    ids: tuple[str, ...],
    limit: int | None,
    url: str | None,
    *,
    everything: bool,
    yes: bool,
    as_json: bool,
    **where: Any,  # noqa: ANN401 - click passes the filters
) -> int | None:
    r"""Delete dead messages for good. Their keys are free again: a repeat is accepted as new.

    \b
    offpath inbox discard 0198c0de-… --yes
    """
    ask(ids, chosen(where), "Delete", everything=everything, yes=yes, as_json=as_json, always=True)

    async def work(app: App) -> int:
        act = app.messages.discard
        if ids:
            changed = await change(app, Box.IN, ids, act)
        else:
            changed = await change(app, Box.IN, (), act, limit=limit, **chosen(where))
        return print_changed(changed, ids, "deleted", as_json=as_json)

    return with_app(url, work)
