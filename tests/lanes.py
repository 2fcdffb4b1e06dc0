"""The lanes of a run: steps that run at once, taken from one pile.

Like :mod:`tests.tools` it needs nothing but the standard library, for ``check.py``.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from typing import TYPE_CHECKING

from tests.tools import Output, end_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.outcomes import Outcome

    Pile = deque[tuple[str, ...]]
    Run = Callable[[str, Output], Outcome]

LANES = 2
"""Suites that run at once, each with a process for each core. A test waits for a server, a disk or
another process a third of its time, and a suite's last test leaves cores without work. So no suite
has the machine for itself, nor counts on it. With three, tests of times were late beside a busy
neighbour, and nothing was won that could be told."""
TWINS = {"types": ("typing",)}
"""Steps that another takes along, since both write one cache."""


def pile_of(steps: Sequence[str], longest: Sequence[str]) -> Pile:
    """The steps in the order of their beginning, the ``longest`` first, each with its twins."""
    taken = {twin for step in steps for twin in TWINS.get(step, ())}
    begin = sorted(
        (step for step in steps if step not in taken),
        key=lambda step: longest.index(step) if step in longest else len(longest),
    )
    return deque((step, *(one for one in TWINS.get(step, ()) if one in steps)) for step in begin)


def in_lanes(pile: Pile, run: Run) -> dict[str, Outcome]:
    """Run what is in the pile; the outcomes by step.

    What the first lane's steps write is shown as it comes, and what another's step writes when it
    has ended.
    """
    outcomes: dict[str, Outcome] = {}
    with contextlib.ExitStack() as lanes:
        for _ in range(LANES - 1):
            lanes.enter_context(_beside(pile, run, outcomes))
        _work_off(pile, run, outcomes, Output)
    return outcomes


def _work_off(
    pile: Pile, run: Run, outcomes: dict[str, Outcome], show: Callable[[], Output]
) -> None:
    while True:
        try:
            steps = pile.popleft()
        except IndexError:
            return
        for step in steps:
            output = show()
            outcomes[step] = run(step, output)
            output.release()


@contextlib.contextmanager
def _beside(pile: Pile, run: Run, outcomes: dict[str, Outcome]) -> Iterator[None]:
    """A thread that works off the pile, too, until the block has ended and the pile is empty."""
    shown = [Output()]
    over = threading.Event()

    def show() -> Output:
        shown.append(Output(held=not over.is_set()))
        return shown[-1]

    thread = threading.Thread(target=_work_off, args=(pile, run, outcomes, show), daemon=True)
    thread.start()
    try:
        yield
    except BaseException:
        # the run is given up: nothing of ours may outlive it
        pile.clear()
        end_all()
        thread.join(5)
        raise
    over.set()
    shown[-1].release()
    thread.join()
