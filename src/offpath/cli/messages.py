"""``offpath outbox`` and ``offpath inbox``: one group of commands, made for each box."""

from __future__ import annotations

from datetime import datetime

import click
from msgspec import Struct

from offpath.app import App
from offpath.cli.action_log import recorded, replayed, rows_in
from offpath.cli.former import former
from offpath.cli.frame import (
    Filters,
    Option,
    after_option,
    confirmed,
    filters,
    limit_option,
    only,
    store_command,
    yes_option,
)
from offpath.cli.message_views import BOXES, message_page, message_shown
from offpath.cli.option_values import since_option
from offpath.cli.selection import Rows, Selection, most_option
from offpath.cli.values import Changed, Listing, Shown
from offpath.errors import InvalidArgument, MessageNotFound
from offpath.model.brief import Kind
from offpath.model.job import DeadReason
from offpath.model.message import Box, MessageState
from offpath.operating.short_ids import completed, page_start

_state = only(
    "--state", "those in this state", "states", type=click.Choice([str(s) for s in MessageState])
)
_stream = only("--stream", "this stream", "streams")
_source = only("--source", "this source", "streams")
_topic = only("--topic", "this topic", "topics")
_key = only("--key", "this key", "keys")
_rejected = click.option("--rejected", is_flag=True, help="Only those that a handler rejected.")


def _only_rejected(where: Filters) -> Filters:
    if not where.pop("rejected", False):
        return where
    if "reasons" in where:
        raise InvalidArgument("give --rejected or --reason, not both")
    return {**where, "reasons": (DeadReason.REJECTED,)}


class _Kind(Struct, frozen=True, kw_only=True):
    """The differences between the commands of the two boxes."""

    box: Box
    noun: str
    names: tuple[Option, ...]
    """Options that filter by what a message is called."""
    reasons: str
    listed: str
    """An example of a filter."""
    former: str
    """The former name of the command that puts dead messages back."""
    examples: tuple[str, ...]
    redriven: str
    discarded: str

    @property
    def filters(self) -> tuple[Option, ...]:
        """Options that filter the messages of this box."""
        died = f"those that died so ({self.reasons}, …)"
        return (*self.names, only("--reason", died, "reasons"))

    @property
    def dead(self) -> Rows:
        """The choice among dead messages."""
        return Rows(
            noun="dead message",
            missing="give message ids, a filter such as --key, or --all",
            ids=click.argument("ids", metavar="[ID]…", nargs=-1),
            filters=self.filters,
            together="message ids",
            refine=_only_rejected,
        )

    @property
    def all_of(self) -> str:
        """The help of --all."""
        return f"All dead messages of the {BOXES[self.box]}."

    def help(self, text: str, *examples: str) -> str:
        """The help of a command, with its examples."""
        lines = "\n".join(f"offpath {BOXES[self.box]} {one}" for one in examples)
        return f"{text}\n\n\b\n{lines}"


_OUT = _Kind(
    box=Box.OUT,
    noun="event",
    names=(_stream, _topic, _key),
    reasons="exhausted, aborted, worker_lost",
    listed="--stream mail --state pending --limit 10",
    former="retry",
    examples=("0198c0de-…", "--stream mail --yes"),
    redriven="Put dead events back as fresh.\n\nDue at once, attempt 1, the oldest first.",
    discarded="Delete dead events for good.",
)
_IN = _Kind(
    box=Box.IN,
    noun="message",
    names=(_source, _key),
    reasons="exhausted, aborted, rejected, bad_input",
    listed="--source stripe --key evt_1",
    former="revive",
    examples=("0198c0de-…", "--source stripe --yes", "--source stripe --rejected --yes"),
    redriven="Put dead messages back as fresh.\n\nDue at once, attempt 1, the oldest first. Those "
    "that a handler rejected only by id or with --rejected.",
    discarded="Delete dead messages for good. Their keys are free again: a repeat is accepted as "
    "new.",
)


def messages(kind: _Kind, about: str) -> click.Group:
    """The commands of a box."""
    group = click.Group(BOXES[kind.box], help=about)
    _add_list(group, kind)
    _add_show(group, kind)
    _add_redrive(group, kind)
    _add_discard(group, kind)
    return group


def _add_list(group: click.Group, kind: _Kind) -> None:
    text = f"List {kind.noun}s, newest first. Payloads are shown by `show` only."

    @group.command("list", help=kind.help(text, "list --state dead", f"list {kind.listed}"))
    @filters(_state, *kind.filters)
    @limit_option
    @after_option()
    @store_command
    async def list_messages(app: App, *, limit: int, after: str | None, where: Filters) -> Listing:
        after = await page_start(app, Kind.MESSAGE, after)
        page = await app.messages.find(limit=limit, after=after, box=kind.box, **where)
        return message_page(page, kind.box)


def _add_show(group: click.Group, kind: _Kind) -> None:
    text = (
        f"Show one {kind.noun} with its payload, headers and last failure.\n\n"
        "Secrets (fields such as password or token) are hidden."
    )

    @group.command("show", help=kind.help(text, "show 0198c0de-…"))
    @click.argument("message_id", metavar="ID")
    @store_command
    async def show_message(app: App, *, message_id: str) -> Shown:
        found = await app.messages.get(await completed(app, Kind.MESSAGE, message_id))
        if found.box is not kind.box:
            other = BOXES[found.box]
            raise MessageNotFound(
                f"{message_id} is in the {other}: offpath {other} show {message_id}"
            )
        return message_shown(found)


def _add_redrive(group: click.Group, kind: _Kind) -> None:
    examples = [f"redrive {one}" for one in kind.examples]
    more = (_rejected,) if kind.box is Box.IN else ()

    @group.command("redrive", help=kind.help(kind.redriven, *examples))
    @kind.dead.chosen("Redrive", *more, all_of=kind.all_of)
    @most_option
    @yes_option
    @store_command
    @recorded("message.redrive", rows_in(kind.box), "limit")
    async def redrive_messages(app: App, *, which: Selection, limit: int | None) -> Changed:
        ids, where = which.ids, which.where
        changed = await app.messages.redrive(*ids, box=kind.box, limit=limit, **where)
        return _changed(changed, ids, "pending again")

    advice = f"offpath {BOXES[kind.box]} redrive"
    former(group, kind.former, redrive_messages, advice=advice)


def _add_discard(group: click.Group, kind: _Kind) -> None:
    @group.command("discard", help=kind.help(kind.discarded, "discard 0198c0de-… --yes"))
    @kind.dead.chosen("Delete", all_of=kind.all_of, lost=True)
    @most_option
    @yes_option
    @store_command
    @recorded("message.discard", rows_in(kind.box), "limit")
    async def discard_messages(app: App, *, which: Selection, limit: int | None) -> Changed:
        ids, where = which.ids, which.where
        changed = await app.messages.discard(*ids, box=kind.box, limit=limit, **where)
        return _changed(changed, ids, "deleted")


def _changed(changed: list[str], asked: tuple[str, ...], verb: str) -> Changed:
    return Changed(dict.fromkeys(changed, verb), asked, verb, "unknown, or not dead")


outbox = messages(_OUT, "Events on their way out: list, show, redrive, replay, discard.")
inbox = messages(_IN, "Messages that were taken in: list, show, redrive, discard.")


@outbox.command("replay")
@since_option
@filters(*_OUT.names)
@most_option
@confirmed("Send again what was delivered since {since}?")
@store_command
@recorded("message.replay", replayed, "since", "limit")
async def replay(app: App, *, since: datetime, limit: int | None, where: Filters) -> Changed:
    r"""Send again what was delivered, the oldest first.

    What was written since a time. Receivers get the same ids again. Delivered events are kept for a
    day by default (keep_delivered).

    \b
    offpath outbox replay --since 2h --stream mail
    """
    changed = await app.messages.replay(since=since, limit=limit, **where)
    return _changed(changed, (), "pending again")
