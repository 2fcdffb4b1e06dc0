"""The options of a task that say when it runs again, and how long it may take."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from offpath.contrib.celery.catalogue import TASK_OPTIONS
from offpath.contrib.celery.exceptions import NotInShim, refuse
from offpath.model.limit_options import Rate

Errors = tuple[type[BaseException], ...]
SOFT: Final = "soft_time_limit"
_RATE: Final = re.compile(r"(?P<count>\d+(\.\d+)?)(/(?P<unit>[smh]))?")
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}
_MOST: Final = 2**31 - 2
"""The retries that stand for any number."""
_FORWARDED: Final = ("name", "queue", "priority", "expires")


class TaskTerms(Struct, frozen=True, kw_only=True):
    """Options of a Celery task, checked."""

    bind: bool = False
    name: str | None = None
    queue: str | None = None
    priority: int | None = None
    expires: Any = None
    max_retries: int = 3
    default_retry_delay: float = 180.0
    autoretry_for: Errors = ()
    dont_autoretry_for: Errors = ()
    retry_kwargs: Mapping[str, Any] = {}
    backoff: float = 0.0
    """Seconds of the first wait, which doubles; 0 where ``default_retry_delay`` counts."""
    longest: float = 600.0
    jitter: bool = True
    time_limit: float | None = None
    soft_time_limit: float | None = None
    """Of an async task."""
    rate: Rate | None = None

    def wait(self, retries: int) -> float:
        """Seconds until an error of ``autoretry_for`` is tried again."""
        if "countdown" in self.retry_kwargs:
            return float(self.retry_kwargs["countdown"])
        if not self.backoff:
            return self.default_retry_delay
        whole = min(self.longest, self.backoff * 2 ** min(retries, 60))
        return random.uniform(0.0, whole) if self.jitter else whole  # noqa: S311 - no secret

    def retries(self) -> int:
        """The number of retries of an error of ``autoretry_for``."""
        return retries_of(self.retry_kwargs.get("max_retries", self.max_retries))


def task_terms(given: Mapping[str, Any]) -> TaskTerms:
    """The options of ``@app.task(...)``. Raises ``NotInShim`` for what the shim has not."""
    for name, value in given.items():
        if (name == "serializer" and value == "json") or name == SOFT:
            continue
        refuse(TASK_OPTIONS.get(name), f"@task({name}=)")
    retry_kwargs: dict[str, Any] = dict(given.get("retry_kwargs", {}))
    if unknown := retry_kwargs.keys() - {"max_retries", "countdown"}:
        raise NotInShim(f"@task(retry_kwargs=): {', '.join(unknown)} is not a part of retry=")
    backoff = given.get("retry_backoff", False)
    return TaskTerms(
        bind=bool(given.get("bind", False)),
        max_retries=retries_of(given.get("max_retries", 3)),
        default_retry_delay=float(given.get("default_retry_delay", 180.0)),
        autoretry_for=tuple(given.get("autoretry_for", ())),
        dont_autoretry_for=tuple(given.get("dont_autoretry_for", ())),
        retry_kwargs=retry_kwargs,
        backoff=float(backoff),
        longest=float(given.get("retry_backoff_max", 600.0)),
        jitter=bool(given.get("retry_jitter", True)),
        time_limit=given.get("time_limit"),
        soft_time_limit=given.get(SOFT),
        rate=_rate(given.get("rate_limit")),
        **{name: given.get(name) for name in _FORWARDED},
    )


def retries_of(value: object) -> int:
    """The number of retries; None stands for any number. Raises ``NotInShim``."""
    if value is None:
        return _MOST
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise NotInShim(f"max_retries={value!r}: a number from 0, or None for no limit")
    return min(value, _MOST)


def _rate(text: object) -> Rate | None:
    """``"10/m"`` as a rate. Raises ``NotInShim`` for what Celery does not take, either."""
    if text is None:
        return None
    found = _RATE.fullmatch(str(text))
    if found is None or not float(found["count"]):
        raise NotInShim(f"rate_limit={text!r}: a number, or a number for s, m or h, as '10/m'")
    seconds = _UNITS[found["unit"] or "s"]
    count = float(found["count"])
    return Rate(int(count), per=seconds) if count >= 1 else Rate(1, per=seconds / count)
