"""The metrics of messages, the log and its routers.

For each state of a stream's messages, what entered it less what left it
(``offpath_message_moves_total``) is the number of messages in it, as far as this process moved
them. Two things are not seen here: messages that the store itself writes about announced jobs, and
which messages a prune removed (it tells only how many).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from offpath.model.new import NewLogEvent
from offpath.model.route import Attempt

if TYPE_CHECKING:
    from offpath.runtime.metrics import Metrics
    from offpath.store.telemetry.message_moves import MessageMove

PRUNED = "ended"
"""The state that pruned messages leave: which of the ended ones is not known."""
NOWHERE = "none"
"""The state of a message before it is written and after it is deleted, as a label."""


class MessageMeter:
    """Keeps these metrics."""

    def __init__(self, registry: Metrics) -> None:
        self._registry = registry

    def moved(self, moves: Iterable[MessageMove]) -> None:
        """Count the ways that messages went."""
        self._registry.drop_idle()
        for move, count in Counter(moves).items():
            labels = {"box": move.box.value, "stream": move.stream}
            self._registry.counter("offpath_messages_total", **labels, outcome=move.outcome).add(
                count
            )
            if move.left is not move.entered:
                self._registry.counter(
                    "offpath_message_moves_total",
                    **labels,
                    left=move.left or NOWHERE,
                    entered=move.entered or NOWHERE,
                ).add(count)

    def pruned(self, count: int) -> None:
        """Count messages whose retention has passed; of which box and stream is not known."""
        if count:
            self._registry.counter(
                "offpath_message_moves_total", box="", stream="", left=PRUNED, entered=NOWHERE
            ).add(count)

    def appended(self, events: Iterable[NewLogEvent]) -> None:
        """Count events that the log was given; a repeat, which has no answer, counts again."""
        for domain, count in Counter(event.domain for event in events).items():
            self._registry.counter("offpath_log_appended_total", domain=domain).add(count)

    def decided(self, attempts: Iterable[Attempt]) -> None:
        """Count what routers decided."""
        ways = Counter((each.router, each.status) for each in attempts)
        for (router, status), count in ways.items():
            self._registry.counter(
                "offpath_router_attempts_total", router=router, status=status.value
            ).add(count)

    def passed(self, router: str, count: int) -> None:
        """Count events that a router has passed."""
        if count:
            self._registry.counter("offpath_router_passed_total", router=router).add(count)
