"""The walk of one enqueue: the files of the package that it passes, in their order.

``python -m tools.walk URL`` prints them for a database that has our tables (`offpath migrate`).
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import offpath

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

PACKAGE = Path(offpath.__file__).parent

_SETTLED = 0.2
"""Seconds."""


@contextmanager
def passed() -> Iterator[dict[str, int]]:
    """The files of the package whose functions are called meanwhile, with how often."""
    found: dict[str, int] = {}

    def seen(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            name = str(path.relative_to(PACKAGE))
            found[name] = found.get(name, 0) + 1

    sys.setprofile(seen)
    try:
        yield found
    finally:
        sys.setprofile(None)


async def of_enqueue(url: str) -> dict[str, int]:
    """The files that one enqueue passes, once the app is warm."""
    app = offpath.App(url)

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    async with app:
        for _ in range(3):
            await add.enqueue(1, b=2)
        await asyncio.sleep(_SETTLED)  # by then, lines that the first ones asked for are open
        with passed() as found:
            await add.enqueue(2, b=3)
    return found


def main(arguments: list[str]) -> None:
    """Print the walk."""
    found = asyncio.run(of_enqueue(arguments[0] if arguments else "memory://"))
    for name, calls in found.items():
        print(f"{calls:>4}  {name}")
    print(f"{len(found)} files, {sum(found.values())} calls")


if __name__ == "__main__":
    main(sys.argv[1:])
