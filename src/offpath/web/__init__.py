"""ASGI apps to mount in a service of your own: :func:`dashboard` (extra ``dashboard``)."""

from __future__ import annotations

from offpath.web.mount import dashboard

__all__ = ["dashboard"]
