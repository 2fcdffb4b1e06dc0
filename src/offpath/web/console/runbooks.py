"""Runbooks and guides: pages of the documentation, shipped for networks without internet."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

_SHIPPED: Final = files("offpath.web.console")
_PAGES: Final[tuple[tuple[str, str], ...]] = (
    (r"^loop |turns in a row failed|no success", "loops"),
    (r"event loop has not turned", "loops"),
    (r"unrouted event of router|dead letters? of router", "routers"),
    (r"has waited for .* s, more than", "waiting"),
    (r"new dead letters? of task", "jobs"),
    (r"new dead letters? of (stream|source)", "outbox"),
    (r"no worker is live|lease is not held|worker has stopped|no live worker", "workers"),
    (r"settlement run", "settlement"),
    (r"^worker \S+: .*loop ", "loops"),
    (r"paused|closed|^[a-z_]+\.[a-z_]+", "findings"),
)
"""The page of each kind of reason; the first that fits."""


_CHECKS: Final[dict[str, str]] = {
    "workers": "workers", "loops": "loops", "takers": "waiting", "pauses": "findings",
    "backlog": "waiting", "waiting": "waiting", "lanes": "waiting", "dead letters": "jobs",
    "deaths": "jobs", "running": "jobs", "schedules": "jobs", "findings": "findings",
    "webhook secrets": "webhooks", "metrics": "workers", "ledger": "economy",
}  # fmt: skip
"""The page of each check of doctor; of the others that of the store."""


def runbook_of_check(name: str) -> str:
    """The page that says what to do about a check that is not fine."""
    return _CHECKS.get(name, "store")


def runbook_of(reason: str) -> str | None:
    """The page that says what to do about a reason."""
    return next((page for pattern, page in _PAGES if re.search(pattern, reason)), None)


def runbook(page: str) -> Markup | None:
    """A runbook as HTML; None for one that there is not. Any HTML in its text stays text."""
    return _page("runbooks", page)


def guide(page: str) -> Markup | None:
    """A guide as HTML; None for one that there is not."""
    return _page("guides", page)


@cache
def _page(folder: str, page: str) -> Markup | None:
    if not re.fullmatch(r"[A-Za-z-]{1,40}", page):
        return None
    text = _text(folder, page)
    if text is None:
        return None
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = reader.parse(text)
    for token in tokens:
        _point_inside(token.children or [])
    # Our own pages, shipped with the package: nobody else's text comes this way.
    return Markup(reader.renderer.render(tokens, reader.options, {}))  # noqa: S704


def _text(folder: str, page: str) -> str | None:
    shipped = _SHIPPED / folder / f"{page}.md"
    if shipped.is_file():
        return _shown(shipped.read_text("utf-8"))
    # In a checkout they lie where people read them; the wheel has a copy.
    here = Path(__file__).parents[4] / "docs" / folder / f"{page}.md"
    return _shown(here.read_text("utf-8")) if here.is_file() else None


def _shown(text: str) -> str:
    """The text without remarks for tests and without pictures, which are not shipped."""
    return re.sub(r"<!--.*?-->\n?|!\[[^\]]*\]\([^)]*\)\n?", "", text, flags=re.DOTALL)


def _point_inside(tokens: list[Token]) -> None:
    """Links to pages of the same folder lead to them here; any other one is only text."""
    kept = True
    for token in tokens:
        if token.type == "link_open":
            found = re.fullmatch(r"([A-Za-z-]+)\.md(?:#.*)?", str(token.attrGet("href") or ""))
            if found:
                token.attrSet("href", found[1])
            else:
                token.tag = "span"
                token.attrs = {}
            kept = found is not None
        elif token.type == "link_close" and not kept:
            token.tag = "span"
