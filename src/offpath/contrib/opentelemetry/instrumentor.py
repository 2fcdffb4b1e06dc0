"""The entry point of ``opentelemetry-instrument``."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from offpath.errors import MissingExtra

try:
    from opentelemetry.instrumentation import instrumentor
except ImportError as error:
    raise MissingExtra(
        "OffpathInstrumentor needs opentelemetry-instrumentation, which `opentelemetry-instrument` "
        "comes with: pip install opentelemetry-instrumentation; or give each app "
        "extensions=[OpenTelemetry()]"
    ) from error

from offpath.contrib.opentelemetry.spans import OpenTelemetry
from offpath.extensions import extend
from offpath.runtime.seats import EVERYWHERE

_Base: Any = instrumentor.BaseInstrumentor  # type: ignore[attr-defined] # as below


class OffpathInstrumentor(_Base):  # type: ignore[misc] # its module is not typed
    """Installs :class:`OpenTelemetry` for every app of the process.

    ``OffpathInstrumentor().instrument(parent=True)`` takes the arguments of that extension.
    """

    _extension: OpenTelemetry | None = None

    def instrumentation_dependencies(self) -> Collection[str]:
        """The package that is instrumented: it is there, since this is a part of it."""
        return ()

    def _instrument(self, **options: Any) -> None:  # noqa: ANN401 - those of the extension
        options.pop("skip_dep_check", None)
        options.pop("raise_exception_on_conflict", None)
        self._extension = OpenTelemetry(**options)
        extend(self._extension)

    def _uninstrument(self, **_: object) -> None:
        if self._extension in EVERYWHERE:
            EVERYWHERE.remove(self._extension)
        self._extension = None
