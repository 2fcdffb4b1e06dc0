"""Links of a job to other systems, made of its own fields, and to other jobs in a text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

FIELDS: Final = ("job_id", "task", "queue", "worker", "trace_id")
"""The fields that a template may name, as ``{job_id}``."""
_NAMED: Final = re.compile(r"{(\w+)}")
_TRACE: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}.*")
"""A ``traceparent`` of W3C: version, trace, span, flags."""


def unknown_fields(template: str) -> list[str]:
    """The fields of a template that there are not."""
    return [name for name in _NAMED.findall(template) if name not in FIELDS]


def links_of(job: Mapping[str, Any], templates: Mapping[str, str]) -> list[tuple[str, str]]:
    """The links of a plain job document; one whose fields it has not is left out."""
    known = {
        "job_id": job["id"],
        "task": job["task"],
        "queue": job["queue"],
        "worker": job["worker"] or _last_worker(job),
        "trace_id": _trace(job["headers"]),
    }
    return [
        (name, _NAMED.sub(lambda found: quote(str(known[found[1]]), safe=""), template))
        for name, template in templates.items()
        if all(known[field] for field in _NAMED.findall(template))
    ]


def _last_worker(job: Mapping[str, Any]) -> str | None:
    told = (one["worker"] for one in reversed(job["failures"]))
    return next((one for one in told if one), None)


def _trace(headers: Any) -> str | None:  # noqa: ANN401 - any JSON
    """The trace that a job belongs to, where its headers may be seen and name one."""
    given = headers.get("traceparent") if isinstance(headers, Mapping) else None
    found = _TRACE.fullmatch(given) if isinstance(given, str) else None
    return None if found is None else found[1]


def around(text: str, ids: Sequence[str]) -> list[str]:
    """The pieces of a text, those that are one of the ids by themselves: a page links these."""
    if not ids:
        return [text]
    return [piece for piece in re.split(f"({'|'.join(map(re.escape, ids))})", text) if piece]
