"""``offpath outbox``: list, show, retry, replay, discard."""

from __future__ import annotations

from typing import Any

import click

from offpath.app import App
from offpath.cli.messages import (
    STATES,
    ask,
    change,
    chosen,
    moment,
    one_of,
    print_changed,
    print_message,
    print_page,
)
from offpath.cli.older_frame import (
    after_option,
    command,
    confirm,
    json_option,
    limit_option,
    options,
    url_option,
    with_app,
    yes_option,
)
from offpath.cli.output import when
from offpath.model.message import Box

_filters = options(
    click.option("--stream", multiple=True, help="Name of a stream; may be repeated."),
    click.option("--topic", multiple=True, help="A topic; may be repeated."),
    click.option("--key", multiple=True, help="A key; may be repeated."),
)
_reason = click.option("--reason", multiple=True, help="exhausted, aborted, worker_lost, …")
_all = click.option("--all", "everything", is_flag=True, help="All dead messages of the outbox.")
_most = click.option("--limit", type=click.IntRange(min=1), help="At most this many, oldest first.")


@click.group()
def outbox() -> None:
    """Events on their way out: list, show, retry, replay, discard."""


@outbox.command("list")
@click.option("--state", multiple=True, type=STATES, help="In this state; may be repeated.")
@_filters
@_reason
@limit_option
@after_option
@url_option
@json_option
@command
def list_outbox(
    limit: int,
    after: str | None,
    url: str | None,
    *,
    as_json: bool,
    **where: Any,  # noqa: ANN401 - click passes the filters
) -> int | None:
    r"""List events, newest first. Payloads are shown by `show` only.

    \b
    offpath outbox list --state dead
    offpath outbox list --stream mail --state pending --limit 10
    """

    async def work(app: App) -> None:
        page = await app.messages.find(limit=limit, after=after, box=Box.OUT, **chosen(where))
        print_page(page, Box.OUT, as_json=as_json)

    return with_app(url, work)


@outbox.command("show")
@click.argument("message_id", metavar="ID")
@url_option
@json_option
@command
def show_outbox(message_id: str, url: str | None, *, as_json: bool) -> int | None:
    r"""Show one event with its payload, headers and last failure.

    Secrets (fields such as password or token) are hidden.

    \b
    offpath outbox show 0198c0de-…
    """

    async def work(app: App) -> None:
        print_message(await one_of(app, Box.OUT, message_id), as_json=as_json)

    return with_app(url, work)


@outbox.command("retry")
@click.argument("ids", metavar="[ID]…", nargs=-1)
@_filters
@_reason
@_all
@_most
@yes_option
@url_option
@json_option
@command
def retry_outbox(
    ids: tuple[str, ...],
    limit: int | None,
    url: str | None,
    *,
    everything: bool,
    yes: bool,
    as_json: bool,
    **where: Any,  # noqa: ANN401 - click passes the filters
) -> int | None:
    r"""Put dead events back as fresh.

    Due at once, attempt 1, the oldest first.

    \b
    offpath outbox retry 0198c0de-…
    offpath outbox retry --stream mail --yes
    """
    ask(ids, chosen(where), "Retry", everything=everything, yes=yes, as_json=as_json)

    async def work(app: App) -> int:
        act = app.messages.revive
        if ids:
            changed = await change(app, Box.OUT, ids, act)
        else:
            changed = await change(app, Box.OUT, (), act, limit=limit, **chosen(where))
        return print_changed(changed, ids, "pending again", as_json=as_json)

    return with_app(url, work)


@outbox.command("replay")
@click.option(
    "--since", required=True, metavar="TIME", help="2026-11-27T09:00Z, or how long ago: 90s, 2h, 3d"
)
@_filters
@_most
@yes_option
@url_option
@json_option
@command
def replay_outbox(
    since: str,
    limit: int | None,
    url: str | None,
    *,
    yes: bool,
    as_json: bool,
    **where: Any,  # noqa: ANN401 - click passes the filters
) -> int | None:
    r"""Send again what was delivered, the oldest first.

    What was written since a time. Receivers get the same ids again. Delivered events are kept for a
    day by default (keep_delivered).

    \b
    offpath outbox replay --since 2h --stream mail
    """
    begun = moment(since, "--since")
    asked = f"Send again what was delivered since {when(begun)}?"
    confirm(asked, yes=yes, as_json=as_json)

    async def work(app: App) -> int:
        changed = await app.messages.replay(since=begun, limit=limit, **chosen(where))
        return print_changed(changed, (), "pending again", as_json=as_json)

    return with_app(url, work)


@outbox.command("discard")
@click.argument("ids", metavar="[ID]…", nargs=-1)
@_filters
@_reason
@_all
@_most
@yes_option
@url_option
@json_option
@command
def discard_outbox(
    ids: tuple[str, ...],
    limit: int | None,
    url: str | None,
    *,
    everything: bool,
    yes: bool,
    as_json: bool,
    **where: Any,  # noqa: ANN401 - click passes the filters
) -> int | None:
    r"""Delete dead events for good.

    \b
    offpath outbox discard 0198c0de-… --yes
    """
    ask(ids, chosen(where), "Delete", everything=everything, yes=yes, as_json=as_json, always=True)

    async def work(app: App) -> int:
        act = app.messages.discard
        if ids:
            changed = await change(app, Box.OUT, ids, act)
        else:
            changed = await change(app, Box.OUT, (), act, limit=limit, **chosen(where))
        return print_changed(changed, ids, "deleted", as_json=as_json)

    return with_app(url, work)
