"""ASGI apps to mount in a service of your own: :func:`dashboard` (extra ``dashboard``);
:func:`under` for routers that do not say where.
"""

from __future__ import annotations

from offpath.web.mount import dashboard
from offpath.web.prefix import under

__all__ = ["dashboard", "under"]
