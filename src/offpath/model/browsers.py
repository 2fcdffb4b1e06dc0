"""Requests that a browser makes on behalf of somebody else's page, told by their headers.

A page may have its visitor's browser post wherever that browser reaches: to a service on their own
machine, or inside of their network. Browsers say so in ``Sec-Fetch-Site`` and ``Origin``, which no
page can change; programs send neither.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import urlsplit

_OWN: Final = ("same-origin", "none")
"""From a page of this very origin, or from nobody's page at all."""
ANY: Final = "*"
_NOT_A_HOST: Final = re.compile(r"[@/?#\\\s]")


def foreign(headers: Mapping[str, str], listed: Collection[str] = ()) -> bool:
    """True if a page of another origin, that is not ``listed``, made the request.

    ``headers`` are by lower-case name. An origin is as browsers write it: ``https://shop.example``.
    """
    origin = headers.get("origin")
    if origin is not None and (origin in listed or ANY in listed):
        return False
    if (site := headers.get("sec-fetch-site")) is not None:
        return site not in _OWN
    return origin is not None and _place(origin) != headers.get("host", "").lower()


def to_loopback(headers: Mapping[str, str]) -> bool:
    """True if the request was addressed to this machine by a name that no stranger's DNS can make
    (a name of their own that leads here would pass for one origin with their page).
    """
    host = named_host(headers.get("host", ""))
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def named_host(text: str) -> str:
    """The name in a Host header, without its port; empty for what no browser sends."""
    if _NOT_A_HOST.search(text):
        return ""
    try:
        return urlsplit(f"//{text}").hostname or ""
    except ValueError:
        return ""


def says_json(headers: Mapping[str, str]) -> bool:
    """True if the body is said to be JSON. No form of a page can say so without being asked first
    whether it may.
    """
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or (
        kind.startswith("application/") and kind.endswith("+json")
    )


def _place(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None
