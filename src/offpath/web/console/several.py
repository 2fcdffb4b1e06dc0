"""Several actions that are asked for together, as the page shows them that confirms them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from offpath.operating.previews import FREELY, UNCOUNTED
from offpath.operating.verbs import verb_of

_FIRST: Final = 10
"""Rows that are shown."""


def sum_of(told: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The plain previews of several actions as of one: all their rows, and the first of them."""
    unknown = any(one["matching"] is None for one in told)
    more = any(one["more"] for one in told)
    matching = None if unknown else sum(one["matching"] for one in told)
    many = more or matching is None or matching > FREELY
    number = UNCOUNTED if more or unknown else str(matching)
    return {
        **told[0],
        "matching": matching,
        "more": more,
        "first": [each for one in told for each in one["first"]][:_FIRST],
        "before": max(one["before"] for one in told),
        "confirm": number if many and verb_of(told[0]["verb"]).final else None,
        "per_second": max(one["per_second"] or 0.0 for one in told) or None,
        "seconds": max(one["seconds"] or 0.0 for one in told) or None,
        "behind": sum(one["behind"] or 0 for one in told),
    }
