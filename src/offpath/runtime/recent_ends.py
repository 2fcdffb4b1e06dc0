"""The ends in this process lately, and the dead letters among them, by its counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from offpath.model.deaths import WITHIN, Ends, Whose, label
from offpath.runtime.clock import Clock
from offpath.runtime.metrics import Metrics

MOST = 100
"""Names that are told about, those with the most deaths first: a report stays small."""
_DEAD, _ENDED = True, False
_BOXES = {"out": Whose.STREAM, "in": Whose.SOURCE}
_MESSAGES = {"done": _ENDED, "dead": _DEAD}
_ROUTED = {"sent": _ENDED, "failed": _DEAD}
_COUNTERS = (
    "offpath_jobs_succeeded_total",
    "offpath_jobs_dead_total",
    "offpath_messages_total",
    "offpath_router_attempts_total",
)


class RecentEnds:
    """The counters of the last quarter of an hour: look at them now and then.

    The store is not asked for what succeeded: it would have to count all of it, and may have
    removed it by then.
    """

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._seen: list[tuple[float, dict[str, Ends]]] = []
        self.ends: dict[str, Ends] = {}
        """By label, of what had dead letters."""

    def look(self) -> None:
        """Read the counters, and forget what was too long ago."""
        now = self._clock.monotonic()
        self._seen.append((now, self._totals()))
        while len(self._seen) > 1 and self._seen[1][0] <= now - WITHIN:
            del self._seen[0]
        first, last = self._seen[0][1], self._seen[-1][1]
        died = {key: one for key in last if (one := _since(key, first, last)).dead}
        worst = sorted(died.items(), key=lambda pair: -pair[1].dead)
        self.ends = dict(worst[:MOST])

    def _totals(self) -> dict[str, Ends]:
        dead: Counter[str] = Counter()
        ended: Counter[str] = Counter()
        for key, died, count in self._counted():
            ended[key] += count
            dead[key] += count if died else 0
        return {key: Ends(dead[key], count) for key, count in ended.items()}

    def _counted(self) -> Iterator[tuple[str, bool, int]]:
        for name, labels, value in self._metrics.values(_COUNTERS):
            match name:
                case "offpath_messages_total":
                    whose, of = _BOXES.get(labels.get("box", "")), labels.get("stream", "")
                    died = _MESSAGES.get(labels.get("outcome", ""))
                case "offpath_router_attempts_total":
                    whose, of = Whose.ROUTER, labels.get("router", "")
                    died = _ROUTED.get(labels.get("status", ""))
                case _:
                    whose, of = Whose.TASK, labels.get("task", "")
                    died = name == "offpath_jobs_dead_total"
            if whose is not None and died is not None:
                yield label(whose, of), died, int(value)


def _since(key: str, first: Mapping[str, Ends], last: Mapping[str, Ends]) -> Ends:
    """The ends between two looks; a process that just began saw nothing before, nor one that
    forgot.
    """
    before, now = first.get(key, Ends(0, 0)), last[key]
    if now.ended < before.ended:  # its series were dropped, and began anew
        before = Ends(0, 0)
    return Ends(now.dead - before.dead, now.ended - before.ended)
