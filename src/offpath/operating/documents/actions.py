"""Documents of actions: who asked for what, and how it went."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

from offpath.model.action import STOP, ActionRecord, ActionState
from offpath.model.redact import redact_text
from offpath.operating.documents.fields import filled
from offpath.operating.documents.pages import DocumentPage, after_full
from offpath.operating.redaction import NOT_SHOWN, PLAIN, Redaction
from offpath.operating.verbs import VERBS


class ActionDocument(Struct, frozen=True, kw_only=True):
    """An action: who, when, by which way, what, to what, how it went."""

    id: str
    at: datetime
    actor: str
    via: str
    verb: str
    target: Any
    options: Any
    note: str
    state: ActionState
    changed: int
    unchanged: int
    reasons: dict[str, int]
    error: str | None
    resumed: bool
    finished_at: datetime | None
    text: str
    """The outcome in a sentence."""
    right: str | None
    """The right that it needs, also to stop it; None for what only a command does."""


class ActionPage(DocumentPage[ActionDocument], frozen=True, kw_only=True):
    """A page of actions, newest first; ``next`` is given back as ``after``."""


def describe(record: ActionRecord, seen: Redaction = PLAIN) -> ActionDocument:
    """The document of an action."""
    return filled(
        ActionDocument,
        record,
        target=_shown(seen).payload(record.target),
        options=_options(record, seen),
        note=redact_text(record.note),
        reasons=dict(record.reasons),
        text=in_words(record),
        right=VERBS[record.verb].right.value if record.verb in VERBS else None,
    )


def describe_page(found: list[ActionRecord], limit: int, seen: Redaction = PLAIN) -> ActionPage:
    """The document of a page."""
    following = after_full(found, limit, lambda one: one.id)
    return ActionPage(items=tuple(describe(one, seen) for one in found), next=following)


def in_words(record: ActionRecord) -> str:
    """The outcome of an action: 312 redriven, 4 left alone: 3 are running, 1 unknown."""
    verb = VERBS.get(record.verb)
    done = verb.done if verb else _DONE.get(record.verb, "changed")
    if record.state is ActionState.RUNNING and not (record.changed or record.unchanged):
        return f"under way, none {done} yet"
    least = "at least " if record.resumed else ""
    text = f"{least}{record.changed:,} {done}"
    if record.unchanged:
        why = ", ".join(
            f"{number:,} {_REASONS.get(reason, reason.replace('_', ' '))}"
            for reason, number in sorted(record.reasons.items())
        )
        text += f", {record.unchanged:,} left alone: {why}"
    return f"{text}{_ENDS[record.state].format(error=record.error)}"


_ENDS = {
    ActionState.RUNNING: " so far",
    ActionState.DONE: "",
    ActionState.FAILED: ", then it failed: {error}",
    ActionState.STOPPED: ", then somebody stopped it",
}
_DONE = {STOP: "stopped"}
_REASONS = {
    "ended_already": "had ended already",
    "unknown": "unknown (any more)",
    "gone_or_busy": "gone, or has not answered many other requests",
    "led_elsewhere": "led by another worker: run it there, or by force",
    "moved_since": "ended or came back since",
    "behind_its_gate": "still behind a gate: redrive the failed jobs that it waits for",
    "refused": "could not be: a unique key is taken, or undoing is still to come",
}


def _options(record: ActionRecord, seen: Redaction) -> Any:  # noqa: ANN401 - any JSON
    """The options. What a job is given is shown to whom arguments are."""
    options = _shown(seen).payload(record.options)
    if not isinstance(options, dict) or seen.payloads:
        return options
    hidden = {name: NOT_SHOWN for name in _CARRIED if options.get(name)}
    return {**options, **hidden}


def _shown(seen: Redaction) -> Redaction:
    """The reader's own secrets: what an action is about is told to all who may read it."""
    return Redaction(names=seen.names)


_CARRIED = ("payload", "input")
"""Options that are what a job is given."""
