"""Starlette: the app is open while the service is, and its faults are answers.

What is here fits FastAPI too, which has dependencies beside it: ``offpath.contrib.fastapi``.
"""

from __future__ import annotations

from offpath.errors import MissingExtra

try:
    import starlette as _starlette
except ImportError as error:
    raise MissingExtra(
        "offpath.contrib.starlette needs Starlette: pip install starlette"
    ) from error

from offpath.contrib.starlette.after_answer import Later, later
from offpath.contrib.starlette.answers import errors
from offpath.contrib.starlette.life import lifespan

__all__ = ["Later", "errors", "later", "lifespan"]

del _starlette
