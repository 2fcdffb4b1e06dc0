"""Sentry: errors of jobs with their attempts, the queue page, and check-ins of schedules.

``sentry_sdk.init(integrations=[OffpathIntegration()])`` installs it for every app of the process.
"""

from __future__ import annotations

from offpath.errors import MissingExtra

try:
    import sentry_sdk as _sentry_sdk
except ImportError as error:
    raise MissingExtra("offpath.contrib.sentry needs sentry-sdk", "sentry") from error

from offpath.contrib.sentry.integration import OffpathIntegration

__all__ = ["OffpathIntegration"]

del _sentry_sdk
