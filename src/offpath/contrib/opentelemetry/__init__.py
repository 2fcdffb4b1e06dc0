"""OpenTelemetry: spans of what is enqueued, run and delivered, and metrics.

``App(url, extensions=[OpenTelemetry()])``; or ``opentelemetry-instrument`` before the command,
which finds :class:`OffpathInstrumentor` and installs it for every app of the process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpath.errors import MissingExtra

try:
    import opentelemetry.trace as _trace
except ImportError as error:
    raise MissingExtra("offpath.contrib.opentelemetry needs its API", "opentelemetry") from error

from offpath.contrib.opentelemetry.spans import OpenTelemetry
from offpath.runtime.late import late_names

if TYPE_CHECKING:
    from offpath.contrib.opentelemetry.instrumentor import OffpathInstrumentor

__all__ = ["OffpathInstrumentor", "OpenTelemetry"]

# the base of instrumentors is a package of its own, which the extra does not ask for
__getattr__ = late_names(
    __name__, {"OffpathInstrumentor": "offpath.contrib.opentelemetry.instrumentor"}
)

del _trace
