"""``offpath endpoints``: where webhooks are posted to. A secret is shown once, when it is made."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from offpath.app import App
from offpath.cli import output
from offpath.cli.messages import moment
from offpath.cli.older_frame import (
    command,
    confirm,
    json_option,
    options,
    url_option,
    with_app,
    yes_option,
)
from offpath.cli.values import Cell
from offpath.errors import InvalidArgument
from offpath.events.webhook.endpoints import Added, Receiver
from offpath.events.webhook.sealing import new_key
from offpath.events.webhook.signing import new_key_pair
from offpath.model.endpoint import EndpointState, stream_of
from offpath.model.message import Box, MessageBacklog
from offpath.model.redact import redact_text

_secret_options = options(
    click.option(
        "--secret-file",
        metavar="FILE",
        help="Sign with the secret (whsec_… or whsk_…) in this file; - is standard input.",
    ),
    click.option("--ed25519", is_flag=True, help="Sign with a new Ed25519 key, not a shared one."),
)


@click.group()
def endpoints() -> None:
    """Where webhooks are posted to, and their secrets."""


@endpoints.command("add")
@click.argument("name")
@click.argument("address", metavar="URL")
@click.option("--topic", multiple=True, help="A topic, prefix.* or * (the default); repeatable.")
@click.option("--stream", multiple=True, help="An outbox stream, prefix.* or *; repeatable.")
@click.option("--header", multiple=True, metavar="NAME=VALUE", help="Sent along; repeatable.")
@_secret_options
@url_option
@json_option
@command
def add(
    name: str,
    address: str,
    topic: tuple[str, ...],
    stream: tuple[str, ...],
    header: tuple[str, ...],
    secret_file: str | None,
    url: str | None,
    *,
    ed25519: bool,
    as_json: bool,
) -> int | None:
    r"""Add the endpoint NAME at URL, or change the one of that name.

    A new one gets a new secret, which is shown now and never again; one that exists keeps its own.

    \b
    offpath endpoints add shop https://shop.example/hooks --topic 'order.*'
    offpath endpoints add shop https://shop.example/hooks --secret-file secret.txt
    """
    headers = dict(_pair(one) for one in header)
    secret, public = _given(secret_file, ed25519=ed25519)

    async def work(app: App) -> None:
        added = await app.webhooks.add(
            name,
            address,
            secret=secret,
            topics=topic or ("*",),
            streams=stream or ("*",),
            headers=headers,
        )
        made = added.secret if added.new and secret is None else None
        receiver = await app.webhooks.get(name)
        _tell(receiver, "added" if added.new else "changed", made, public, as_json=as_json)

    return with_app(url, work)


@endpoints.command("list")
@url_option
@json_option
@command
def list_endpoints(url: str | None, *, as_json: bool) -> int | None:
    r"""List the endpoints: how they are, and how much waits for each.

    \b
    offpath endpoints list
    """

    async def work(app: App) -> None:
        found = await app.webhooks.list()
        waiting = await _waiting(app)
        if as_json:
            output.print_json({"items": [_document(one, waiting) for one in found]})
            return
        columns = ("endpoint", "state", "url", "topics", "due", "dead", "failures", "note")
        rows = [_row(one, waiting) for one in found]
        output.print_table(columns, rows, empty="there are no endpoints")

    return with_app(url, work)


@endpoints.command("show")
@click.argument("name")
@url_option
@json_option
@command
def show(name: str, url: str | None, *, as_json: bool) -> int | None:
    r"""Show one endpoint. Its secrets are counted, never shown.

    \b
    offpath endpoints show shop
    """

    async def work(app: App) -> None:
        one = await app.webhooks.get(name)
        told = _document(one, await _waiting(app))
        if as_json:
            output.print_json(told)
            return
        lines: dict[str, Cell] = {
            "endpoint": one.name,
            "url": redact_text(one.url),
            "state": f"{one.state} ({one.reason})" if one.reason else str(one.state),
            "topics": ", ".join(one.topics),
            "streams": ", ".join(one.streams),
            "secrets": f"{one.secrets} (not shown)",
            "failures": f"{one.failures} in a row",
            "failing since": output.when(one.failing_since),
            "blocked until": output.when(one.blocked_until),
            "added": output.when(one.created_at),
            "due": told["due"],
            "dead": told["dead"],
        }
        for label, value in lines.items():
            click.echo(f"{label:>13}  {output.clean(str(value))}")

    return with_app(url, work)


@endpoints.command("pause")
@click.argument("name")
@click.option("--reason", default="paused by an operator", show_default=True, help="Why.")
@url_option
@json_option
@command
def pause(name: str, reason: str, url: str | None, *, as_json: bool) -> int | None:
    r"""Post nothing to an endpoint until it is resumed.

    What there is for it waits.

    \b
    offpath endpoints pause shop
    """

    async def work(app: App) -> None:
        await app.webhooks.pause(name, reason)
        _tell(await app.webhooks.get(name), "paused", as_json=as_json)

    return with_app(url, work)


@endpoints.command("resume")
@click.argument("name")
@url_option
@json_option
@command
def resume(name: str, url: str | None, *, as_json: bool) -> int | None:
    r"""Post to an endpoint again.

    Also when it was disabled: its failures are forgotten.

    \b
    offpath endpoints resume shop
    """

    async def work(app: App) -> None:
        await app.webhooks.resume(name)
        _tell(await app.webhooks.get(name), "resumed", as_json=as_json)

    return with_app(url, work)


@endpoints.command("rotate")
@click.argument("name")
@_secret_options
@url_option
@json_option
@command
def rotate(
    name: str, secret_file: str | None, url: str | None, *, ed25519: bool, as_json: bool
) -> int | None:
    r"""Sign with a new secret, too.

    Posts are signed with it and with the ones before it, until `retire`. It is shown now and never
    again.

    \b
    offpath endpoints rotate shop
    offpath endpoints retire shop     # when the receiver has the new one
    """
    secret, public = _given(secret_file, ed25519=ed25519)

    async def work(app: App) -> None:
        added: Added = await app.webhooks.rotate(name, secret)
        made = added.secret if secret is None else None
        _tell(await app.webhooks.get(name), "rotated", made, public, as_json=as_json)

    return with_app(url, work)


@endpoints.command("retire")
@click.argument("name")
@url_option
@json_option
@command
def retire(name: str, url: str | None, *, as_json: bool) -> int | None:
    r"""Forget all secrets of an endpoint but the newest.

    \b
    offpath endpoints retire shop
    """

    async def work(app: App) -> None:
        gone = await app.webhooks.retire(name)
        if as_json:
            output.print_json({"retired": gone})
        else:
            click.echo(f"{output.clean(name)}: old secrets retired: {gone}")

    return with_app(url, work)


@endpoints.command("remove")
@click.argument("name")
@yes_option
@url_option
@json_option
@command
def remove(name: str, url: str | None, *, yes: bool, as_json: bool) -> int | None:
    r"""Remove an endpoint with its secrets. What waits for it is never posted.

    \b
    offpath endpoints remove shop --yes
    """
    confirm(f"Remove the endpoint {name}?", yes=yes, as_json=as_json)

    async def work(app: App) -> None:
        await app.webhooks.remove(name)
        if as_json:
            output.print_json({"removed": name})
        else:
            click.echo(f"{output.clean(name)}: removed")

    return with_app(url, work)


@endpoints.command("replay")
@click.argument("name")
@click.option(
    "--since", required=True, metavar="TIME", help="2026-11-27T09:00Z, or how long ago: 90s, 2h, 3d"
)
@click.option("--until", metavar="TIME", help="Up to this time; else up to now.")
@click.option(
    "--limit", type=click.IntRange(1, 1_000_000), default=10_000, show_default=True, help="Most."
)
@yes_option
@url_option
@json_option
@command
def replay(
    name: str,
    since: str,
    until: str | None,
    limit: int,
    url: str | None,
    *,
    yes: bool,
    as_json: bool,
) -> int | None:
    r"""Post again what was delivered or given up.

    Since a time, the oldest first. Receivers get the same ids again, by which they drop what they
    have.

    \b
    offpath endpoints replay shop --since 2h
    """
    begun = moment(since, "--since")
    ended: datetime | None = None if until is None else moment(until, "--until")
    asked = f"Post everything since {output.when(begun)} to {name} again?"
    confirm(asked, yes=yes, as_json=as_json)

    async def work(app: App) -> None:
        count = await app.webhooks.replay(name, since=begun, until=ended, limit=limit)
        if as_json:
            output.print_json({"replayed": count})
        else:
            click.echo(f"{output.clean(name)}: {count} to be posted again")

    return with_app(url, work)


@endpoints.command("new-key")
@json_option
@command
def make_key(*, as_json: bool) -> None:
    r"""Make a key for OFFPATH_SECRET_KEY. It is not stored anywhere.

    \b
    offpath endpoints new-key > secret.key
    OFFPATH_SECRET_KEY_FILE=secret.key offpath endpoints reseal
    """
    key = new_key()
    if as_json:
        output.print_json({"key": key})
    else:
        click.echo(key)


@endpoints.command()
@url_option
@json_option
@command
def reseal(url: str | None, *, as_json: bool) -> int | None:
    r"""Seal all secrets under the first key of OFFPATH_SECRET_KEY.

    Run it once with the first key, and after a new key was put before the old one; then the old
    one may go.

    \b
    offpath endpoints reseal
    """

    async def work(app: App) -> None:
        count = await app.webhooks.reseal()
        if as_json:
            output.print_json({"resealed": count})
        else:
            click.echo(f"secrets of {count} endpoints sealed")

    return with_app(url, work)


def _given(secret_file: str | None, *, ed25519: bool) -> tuple[str | None, str | None]:
    """The secret to sign with, if it is not to be made by the store's side, and its public key."""
    if ed25519:
        if secret_file is not None:
            raise InvalidArgument("give --secret-file or --ed25519, not both")
        return new_key_pair()
    if secret_file is None:
        return None, None
    try:
        if secret_file == "-":  # noqa: S105 - a file's name
            return sys.stdin.readline().strip(), None
        return Path(secret_file).read_text("utf-8").strip(), None
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise InvalidArgument(f"the secret cannot be read from {secret_file}: {why}") from None


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise InvalidArgument(f"a header is written NAME=VALUE, not {name[:60]!r}")
    return name, value


def _tell(
    one: Receiver,
    what: str,
    secret: str | None = None,
    public: str | None = None,
    *,
    as_json: bool,
) -> None:
    """What was done, and the secret if one was made: this once."""
    if as_json:
        plain = _shown(one)
        output.print_json({**plain, "done": what, "secret": secret, "public_key": public})
        return
    state = "" if what == one.state else f", {one.state}"
    click.echo(f"{output.clean(one.name)}: {what}{state}")
    if secret:
        click.echo(f"secret: {secret}")
        click.echo("give it to the receiver now: it is not shown again", err=True)
    if public:
        click.echo(f"public key: {public}")
        click.echo("the receiver verifies with it; it is no secret", err=True)


async def _waiting(app: App) -> dict[str, MessageBacklog]:
    found = await app.message_backlog()
    return {one.stream: one for one in found if one.box is Box.OUT}


def _document(one: Receiver, waiting: dict[str, MessageBacklog]) -> dict[str, Any]:
    plain = _shown(one)
    backlog = waiting.get(stream_of(one.name))
    plain["due"] = backlog.due if backlog else 0
    plain["dead"] = backlog.dead if backlog else 0
    return plain


def _shown(one: Receiver) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(one)
    plain["url"] = redact_text(one.url)
    return plain


def _row(one: Receiver, waiting: dict[str, MessageBacklog]) -> tuple[Cell, ...]:
    told = _document(one, waiting)
    note = one.reason or ""
    if one.state is EndpointState.ENABLED and one.failing_since:
        note = f"failing since {output.ago(one.failing_since)}"
    topics = ", ".join(one.topics)
    waits = told["due"], told["dead"]
    return one.name, one.state, told["url"], topics, *waits, one.failures, note
