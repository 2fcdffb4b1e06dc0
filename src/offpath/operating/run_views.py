"""Views of runs."""

from __future__ import annotations

from offpath.app import App
from offpath.errors import InvalidArgument
from offpath.model.run import RunKind
from offpath.operating.documents import runs as documents
from offpath.operating.documents.runs import RunPage
from offpath.runtime.ids import parse_id


async def runs(
    app: App,
    *,
    kind: str | None = None,
    name: str | None = None,
    limit: int = 50,
    after: str | None = None,
) -> RunPage:
    """Runs, the newest first, of one kind and of one name where these are given.

    Raises ``InvalidArgument``.
    """
    found = await app.store().runs(
        kind=None if kind is None else _kind(kind),
        name=name,
        limit=limit + 1,
        after=None if after is None else parse_id(after, "after"),
    )
    return documents.describe_page(found, limit)


def _kind(text: str) -> RunKind:
    try:
        return RunKind(text)
    except ValueError as error:
        known = ", ".join(RunKind)
        raise InvalidArgument(f"there is no kind {text!r:.60}; there are: {known}") from error
