"""How the steps of a check ended: what is counted, what is tried again, and the table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tests.tools import Output, say, stream

AGAIN = 3
"""The tests of a suite that may fail and be tried once more, alone: on a full machine a deadline of
somebody else's process says nothing. What fails twice has failed, and more than these have."""
FAILURES = ("failed", "error", "errors")
"""pytest's words for tests that did not pass."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one step. ``counts`` is pytest's tally, empty for the other tools."""

    step: str
    passed: bool
    seconds: float
    counts: dict[str, int]


def tally(output: str) -> dict[str, int]:
    """The numbers of pytest's last line: ``{"passed": 12, "skipped": 1}``."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output).strip()
    last = plain.splitlines()[-1] if plain else ""
    found = re.findall(r"(\d+) (passed|failed|skipped|errors?|xfailed|xpassed)", last)
    return {word: int(number) for number, word in found}


def once_more(
    line: Sequence[str], found: dict[str, int], output: Output
) -> tuple[int, dict[str, int]]:
    """Try what failed once more, by itself; the code of its end, and what to count now.

    Those that pass then are counted as ``late``: the table says so.
    """
    failed = sum(found.get(word, 0) for word in FAILURES)
    if not 0 < failed <= AGAIN:
        return 1, found
    alone = ["-n", "0", "--last-failed", "--last-failed-no-failures", "none"]
    output.say(f"\n== once more, alone: {failed}")
    code, text = stream([*line, *alone], output)
    if code or tally(text).get("passed") != failed:
        return 1, found
    return 0, {**{word: number for word, number in found.items() if word not in FAILURES},
               "late": failed}  # fmt: skip


def report(outcomes: Sequence[Outcome], seconds: float) -> None:
    """The table, and pytest's numbers added up. ``seconds`` is how long all took together."""
    say(f"\n{'step':<14}{'result':<9}{'seconds':>8}")
    total: dict[str, int] = {}
    for outcome in outcomes:
        counts = ", ".join(f"{number} {word}" for word, number in outcome.counts.items())
        result = "ok" if outcome.passed else "FAILED"
        say(f"{outcome.step:<14}{result:<9}{outcome.seconds:>8.1f}  {counts}".rstrip())
        for word, number in outcome.counts.items():
            total[word] = total.get(word, 0) + number
    tests = ", ".join(f"{number} {word}" for word, number in total.items()) or "no tests run"
    failed = ", ".join(outcome.step for outcome in outcomes if not outcome.passed)
    say(f"\n{f'FAILED: {failed}' if failed else 'all ok'} in {seconds:.0f} s: {tests}")
