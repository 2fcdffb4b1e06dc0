"""``offpath endpoints``: where webhooks are posted to. A secret is shown once, when it is made."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from offpath.app import App
from offpath.cli import output
from offpath.cli.action_log import named, recorded
from offpath.cli.frame import confirmed, option_group, plain_command, store_command
from offpath.cli.option_values import pairs, past_time, since_option
from offpath.cli.values import Cell, Fields, Listing, Said, Shown, Table
from offpath.errors import InvalidArgument
from offpath.events.webhook.endpoints import Receiver
from offpath.events.webhook.keyring import new_key
from offpath.events.webhook.signature import new_key_pair
from offpath.model.endpoint import EndpointState, stream_of
from offpath.model.message import Box, MessageBacklog
from offpath.model.redact import redact_text
from offpath.operating.documents.posts import PostDocument, describe_posts


class _SigningKey(NamedTuple):
    """The key to sign with; where there is none, the app makes a secret."""

    secret: str | None = None
    public: str | None = None


def _key(secret_file: str | None, *, ed25519: bool) -> _SigningKey:
    if ed25519:
        if secret_file is not None:
            raise InvalidArgument("give --secret-file or --ed25519, not both")
        return _SigningKey(*new_key_pair())
    if secret_file is None:
        return _SigningKey()
    try:
        if secret_file == "-":  # noqa: S105 - a file's name
            return _SigningKey(sys.stdin.readline().strip())
        return _SigningKey(Path(secret_file).read_text("utf-8").strip())
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise InvalidArgument(f"the secret cannot be read from {secret_file}: {why}") from None


_key_options = option_group(
    "key",
    _key,
    click.option(
        "--secret-file",
        metavar="FILE",
        help="Sign with the secret (whsec_… or whsk_…) in this file; - is standard input.",
    ),
    click.option("--ed25519", is_flag=True, help="Sign with a new Ed25519 key, not a shared one."),
)
_name = click.argument("name")


@click.group()
def endpoints() -> None:
    """Addresses that webhooks are posted to, and their secrets."""


@endpoints.command("add")
@_name
@click.argument("address", metavar="URL")
@click.option("--topic", multiple=True, help="A topic, prefix.* or *; repeatable.  [default: *]")
@click.option("--stream", multiple=True, help="A stream, prefix.* or *; repeatable.  [default: *]")
@click.option(
    "--header",
    callback=pairs("a header is written NAME=VALUE"),
    multiple=True,
    metavar="NAME=VALUE",
    help="A header that is sent along; repeatable.",
)
@click.option("--no-trace", is_flag=True, help="Post without the header traceparent.")
@_key_options
@store_command
@recorded("endpoint.add", named())
async def add(
    app: App,
    *,
    name: str,
    address: str,
    topic: tuple[str, ...],
    stream: tuple[str, ...],
    header: tuple[tuple[str, str], ...],
    no_trace: bool,
    key: _SigningKey,
) -> Shown:
    r"""Add the endpoint NAME at URL, or change the one of that name.

    A new one gets a new secret, which is shown now and never again; one that exists keeps its own.

    \b
    offpath endpoints add shop https://shop.example/hooks --topic 'order.*'
    offpath endpoints add shop https://shop.example/hooks --secret-file secret.txt
    """
    topics, streams = topic or ("*",), stream or ("*",)
    added = await app.webhooks.add(
        name,
        address,
        secret=key.secret,
        topics=topics,
        streams=streams,
        headers=dict(header),
        trace=not no_trace,
    )
    made = added.secret if added.new and key.secret is None else None
    done = "added" if added.new else "changed"
    return await _now(app, name, done, _SigningKey(made, key.public))


@endpoints.command("list")
@store_command
async def list_endpoints(app: App) -> Listing:
    r"""List the endpoints: how they are, and how much waits for each.

    \b
    offpath endpoints list
    """
    waiting = await _waiting(app)
    found = [(one, _document(one, waiting)) for one in await app.webhooks.list()]
    columns = ("endpoint", "state", "url", "topics", "due", "dead", "failures", "note")
    rows = [_row(one, document) for one, document in found]
    documents = [document for _, document in found]
    return Listing(documents, Table(columns, rows, "there are no endpoints", brief=True))


@endpoints.command("show")
@_name
@store_command
async def show(app: App, *, name: str) -> Shown:
    r"""Show one endpoint and how its last twenty posts went.

    Its secrets are counted, never shown.

    \b
    offpath endpoints show shop
    """
    one = await app.webhooks.get(name)
    posts = describe_posts(await app.store().posts(one.name))
    document = {
        **_document(one, await _waiting(app)),
        "posts": [msgspec.to_builtins(each, builtin_types=(datetime,)) for each in posts],
    }
    fields: dict[str, Cell] = {
        "endpoint": one.name,
        "url": redact_text(one.url),
        "state": f"{one.state} ({one.reason})" if one.reason else str(one.state),
        "topics": ", ".join(one.topics),
        "streams": ", ".join(one.streams),
        "trace": "sent" if one.trace else "declined",
        "secrets": f"{one.secrets} (not shown)",
        "failures": f"{one.failures} in a row",
        "failing since": output.when(one.failing_since),
        "blocked until": output.when(one.blocked_until),
        "added": output.when(one.created_at),
        "due": document["due"],
        "dead": document["dead"],
    }
    return Shown(document, [Fields(fields), _post_table(posts)])


@endpoints.command("pause")
@_name
@click.option(
    "--reason",
    default="paused by an operator",
    show_default=True,
    help="The reason that `show` gives.",
)
@store_command
@recorded("endpoint.pause", named())
async def pause(app: App, *, name: str, reason: str) -> Shown:
    r"""Post nothing to an endpoint until it is resumed.

    What there is for it waits.

    \b
    offpath endpoints pause shop
    """
    await app.webhooks.pause(name, reason)
    return await _now(app, name, "paused")


@endpoints.command("resume")
@_name
@store_command
@recorded("endpoint.resume", named())
async def resume(app: App, *, name: str) -> Shown:
    r"""Post to an endpoint again.

    Also when it was disabled: its failures are forgotten.

    \b
    offpath endpoints resume shop
    """
    await app.webhooks.resume(name)
    return await _now(app, name, "resumed")


@endpoints.command("rotate")
@_name
@_key_options
@store_command
@recorded("endpoint.rotate", named())
async def rotate(app: App, *, name: str, key: _SigningKey) -> Shown:
    r"""Sign with a new secret, too.

    Posts are signed with it and with the ones before it, until `retire`. It is shown now and never
    again.

    \b
    offpath endpoints rotate shop
    offpath endpoints retire shop     # when the receiver has the new one
    """
    added = await app.webhooks.rotate(name, key.secret)
    made = added.secret if key.secret is None else None
    return await _now(app, name, "rotated", _SigningKey(made, key.public))


@endpoints.command("retire")
@_name
@store_command
@recorded("endpoint.retire", named())
async def retire(app: App, *, name: str) -> Said:
    r"""Forget all secrets of an endpoint but the newest.

    \b
    offpath endpoints retire shop
    """
    gone = await app.webhooks.retire(name)
    return Said({"retired": gone}, f"{name}: old secrets retired: {gone}")


@endpoints.command("remove")
@_name
@confirmed("Remove the endpoint {name}?")
@store_command
@recorded("endpoint.remove", named())
async def remove(app: App, *, name: str) -> Said:
    r"""Remove an endpoint with its secrets. What waits for it is never posted.

    \b
    offpath endpoints remove shop --yes
    """
    await app.webhooks.remove(name)
    return Said({"removed": name}, f"{name}: removed")


@endpoints.command("replay")
@_name
@since_option
@click.option(
    "--until",
    callback=past_time,
    metavar="TIME",
    help="The last time.  [default: now]",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 1_000_000),
    default=10_000,
    show_default=True,
    help="The most events to post again.",
)
@confirmed("Post everything since {since} to {name} again?")
@store_command
@recorded("endpoint.replay", named(), "since", "until", "limit")
async def replay(
    app: App, *, name: str, since: datetime, until: datetime | None, limit: int
) -> Said:
    r"""Post again what was delivered or given up.

    Since a time, the oldest first. Receivers get the same ids again, by which they drop what they
    have.

    \b
    offpath endpoints replay shop --since 2h
    """
    count = await app.webhooks.replay(name, since=since, until=until, limit=limit)
    return Said({"replayed": count}, f"{name}: {count} to be posted again")


@endpoints.command("new-key")
@plain_command
def make_key() -> Said:
    r"""Make a key for OFFPATH_SECRET_KEY. It is not stored anywhere.

    \b
    offpath endpoints new-key > secret.key
    OFFPATH_SECRET_KEY_FILE=secret.key offpath endpoints reseal
    """
    key = new_key()
    return Said({"key": key}, key)


@endpoints.command()
@store_command
async def reseal(app: App) -> Said:
    r"""Seal all secrets under the first key of OFFPATH_SECRET_KEY.

    Run it once with the first key, and after a new key was put before the old one; then the old
    one may go.

    \b
    offpath endpoints reseal
    """
    count = await app.webhooks.reseal()
    return Said({"resealed": count}, f"secrets of {count} endpoints sealed")


async def _now(app: App, name: str, done: str, key: _SigningKey = _SigningKey()) -> Shown:  # noqa: B008 - frozen
    """An endpoint after it was changed, and the secret if one was made: this once."""
    one = await app.webhooks.get(name)
    lines = [f"{one.name}: {done}" + ("" if done == one.state else f", {one.state}")]
    notes = []
    if key.secret:
        lines.append(f"secret: {key.secret}")
        notes.append("give it to the receiver now: it is not shown again")
    if key.public:
        lines.append(f"public key: {key.public}")
        notes.append("the receiver verifies with it; it is not a secret")
    made = {"done": done, "secret": key.secret, "public_key": key.public}
    return Shown({**_plain(one), **made}, lines, notes)


async def _waiting(app: App) -> dict[str, MessageBacklog]:
    found = await app.message_backlog()
    return {one.stream: one for one in found if one.box is Box.OUT}


def _document(one: Receiver, waiting: dict[str, MessageBacklog]) -> dict[str, Any]:
    plain = _plain(one)
    backlog = waiting.get(stream_of(one.name))
    plain["due"] = backlog.due if backlog else 0
    plain["dead"] = backlog.dead if backlog else 0
    return plain


def _plain(one: Receiver) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(one)
    plain["url"] = redact_text(one.url)
    return plain


def _row(one: Receiver, document: dict[str, Any]) -> tuple[Cell, ...]:
    note = one.reason or ""
    if one.state is EndpointState.ENABLED and one.failing_since:
        note = f"failing since {output.ago(one.failing_since)}"
    waits = document["due"], document["dead"]
    url, topics = document["url"], ", ".join(one.topics)
    return one.name, one.state, url, topics, *waits, one.failures, note


def _post_table(posts: Sequence[PostDocument]) -> Table:
    rows = [
        (output.when(one.at), one.outcome, one.status or "none", f"{one.ms} ms", one.why or "")
        for one in posts
    ]
    return Table(("posted", "outcome", "status", "took", "why"), rows, "nothing was posted yet")
