"""SIGTERM and SIGINT, as calls in the event loop, for as long as somebody wants them."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STOPPING = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def caught(callback: Callable[[], None] | None) -> Iterator[None]:
    """Call ``callback`` in the running loop at each of these signals; afterwards all is as before.

    None catches nothing. Raises ValueError outside of the main thread, as Python does.
    """
    if callback is None:
        yield
        return
    loop = asyncio.get_running_loop()

    def handle(_number: int, _frame: Any) -> None:  # noqa: ANN401 - a frame, unused
        loop.call_soon_threadsafe(callback)

    before = {number: signal.signal(number, handle) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
