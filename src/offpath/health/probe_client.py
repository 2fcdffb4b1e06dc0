"""The client of a worker's probe: where it is, and what it and those beside it report."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from offpath.config import Settings
from offpath.errors import ConfigurationError, InvalidArgument, OffpathError
from offpath.health.probe import check_token
from offpath.model.json_text import decode_json

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - told apart
"""The addresses at which this machine reaches what listens on all addresses."""
_JUDGED = (200, 503)


class ProbeUnreachable(OffpathError):
    """Nothing answers there as a worker's probe does."""

    code = "probe_unreachable"


def probe_here(settings: Settings) -> SplitResult | None:
    """The probe that workers with these settings have on this machine; None without a port."""
    if not settings.health_port:
        return None
    host = _EVERYWHERE.get(settings.health_host, settings.health_host)
    host = f"[{host}]" if ":" in host else host
    return urlsplit(f"http://{host}:{settings.health_port}")


def probe_of(url: str) -> SplitResult | None:
    """The probe that a URL names; None when it names a store. Raises ``ConfigurationError``."""
    if url.partition(":")[0].lower() not in {"http", "https"}:
        return None
    try:
        parts = urlsplit(url)
        if parts.hostname and parts.port != 0:
            return parts
    except ValueError:  # a port that is none, a bracket without its other
        pass
    raise ConfigurationError("write the probe's URL as http://127.0.0.1:8080")


def ask_processes(place: SplitResult, token: str | None, timeout: float) -> dict[str, Any]:
    """The report of a probe, with the reasons of other processes of the same command.

    Raises ``ProbeUnreachable`` when the first does not answer.
    """
    report = ask_probe(place, token, timeout)
    if reasons := _of_siblings(place, report, token, timeout):
        return {**report, "ready": False, "reasons": [*report["reasons"], *reasons]}
    return report


def _of_siblings(
    place: SplitResult, report: Mapping[str, Any], token: str | None, timeout: float
) -> list[str]:
    """The reasons of other processes of the same command, each with its number and port."""
    own = report.get("process", {})  # an older worker's probe has none
    number, count = own.get("number", 0), own.get("count", 1)
    first = (place.port or 0) - number
    reasons = []
    for other in range(count):
        if other == number:
            continue
        named = f"process {other + 1} of {count} (port {first + other})"
        sibling = place._replace(netloc=f"{_host(place)}:{first + other}")
        try:
            told = ask_probe(sibling, token, timeout)["reasons"]
        except ProbeUnreachable:
            told = ["it does not answer: it is stopped, hangs, or has ended"]
        reasons += [f"{named}: {one}" for one in told]
    return reasons


def _host(place: SplitResult) -> str:
    host = place.hostname or ""
    return f"[{host}]" if ":" in host else host


def ask_probe(place: SplitResult, token: str | None, timeout: float) -> dict[str, Any]:
    """The report of a probe. No proxy is asked: it is next door. Raises ``ProbeUnreachable``."""
    host = place.hostname or ""
    kind = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
    check_token(token)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    where = f"{host}:{place.port or place.scheme}"
    path = place.path.rstrip("/").removesuffix("/readyz") + "/readyz"
    connection = kind(host, place.port, timeout=timeout)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        status, body = answer.status, answer.read()
    except (OSError, UnicodeError, http.client.HTTPException) as error:
        raise ProbeUnreachable(f"{where}: {error or type(error).__name__}") from error
    finally:
        connection.close()
    return _read(where, status, body)


def _read(where: str, status: int, body: bytes) -> dict[str, Any]:
    if status == http.client.UNAUTHORIZED:
        raise ProbeUnreachable(f"{where} wants its token: set OFFPATH_HEALTH_TOKEN")
    try:
        report = decode_json(body, "the report") if status in _JUDGED else None
    except InvalidArgument:
        report = None
    if not isinstance(report, dict) or not {"ready", "loops", "waiting", "reasons"} <= set(report):
        raise ProbeUnreachable(f"{where} answered {status}: is that a worker's probe?")
    return report
