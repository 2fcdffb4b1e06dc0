"""Checks that an integration adds to the checkup: of what it knows and the store does not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from offpath.app import App
from offpath.store.protocol import Finding

FurtherCheck = Callable[[App], Awaitable[list[Finding]]]
"""A check of an app that is open."""

_CHECKS: Final[list[FurtherCheck]] = []
"""The checks of this process: an integration is set up once in it."""


def check_also(check: FurtherCheck) -> None:
    """Make a check part of every checkup of this process. Repeating it does nothing."""
    if check not in _CHECKS:
        _CHECKS.append(check)


async def further_findings(app: App) -> list[Finding]:
    """The findings of all of them."""
    return [one for check in _CHECKS for one in await check(app)]
