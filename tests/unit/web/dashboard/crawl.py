"""A walk over every page of a dashboard, by its links, as a browser without scripts would go."""

from __future__ import annotations

import html
import re
from collections import Counter
from html.parser import HTMLParser
from urllib.parse import urljoin

from tests.unit.web.dashboard.rig import Site


class Page(HTMLParser):
    """The links of a page, its scripts, and what a strict policy would refuse."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.refused: list[str] = []
        self.scripts: list[str | None] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.links += [given[name] or "" for name in ("href", "src", "action") if name in given]
        bad = [name for name in given if name == "style" or name.startswith(("on", "hx-on"))]
        self.refused += bad + (["style"] if tag == "style" else [])
        if tag == "script":
            self.scripts.append(given.get("src"))


_ALIKE = 2
"""Pages of one shape, as of single jobs, that are looked at."""
_HIDDEN = "***"


async def crawl(site: Site) -> dict[str, str]:
    """Every page that is reached from the first one, and the JSON of each."""
    found: dict[str, str] = {}
    shapes: Counter[str] = Counter()
    ahead = [f"{quoted(site.root)}/"]
    while ahead:
        link = ahead.pop()
        shape = _shape(link)
        if link in found or shapes[shape] == _ALIKE:
            continue
        shapes[shape] += 1
        assert link.startswith(f"{quoted(site.root)}/"), link
        path = html.unescape(link.removeprefix(quoted(site.root)))
        answer = await site.get(path)
        # a form's own place wants its fields, and by a name with a secret nothing is found
        gone = {(link, 404)} if _HIDDEN in link or "%2A%2A%2A" in link else set()
        assert (link, answer.code) in {(link, 200), (link, 405), *gone} | {
            (f"{quoted(site.root)}/act", 400)
        }, (link, answer.code, answer.text[-600:])
        found[link] = answer.text
        if "html" in answer.headers.get("content-type", ""):
            ahead += [
                urljoin(link, one.partition("#")[0])
                for one in Page(answer.text).links
                if one and not one.startswith(("data:", "#", "https://logs.example/"))
            ]
    return found


_ALIKE_WITHOUT = {"sort", "enqueued_after", "range", "compare", "after"}
"""Fields of a query without which a page has the same parts."""


def _shape(link: str) -> str:
    """The path of a link, and the names of its filters: one value of a filter is as another."""
    path, _, query = re.sub(r"[0-9a-f-]{36}", "ID", link).partition("?")
    names = {pair.partition("=")[0] for pair in html.unescape(query).split("&")} - _ALIKE_WITHOUT
    return f"{re.sub('/queues/.+', '/queues/NAME', path)}?{sorted(names)}" if query else path


def quoted(root: str) -> str:
    """A prefix as it stands in a link."""
    return root.replace(" ", "%20")
