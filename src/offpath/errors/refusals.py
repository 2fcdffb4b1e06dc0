"""The root of all errors, and refusals of what a caller gave."""

from __future__ import annotations

from typing import ClassVar


class OffpathError(Exception):
    """Root of everything that offpath raises.

    ``retryable`` tells whether the same call may succeed later without a change.
    """

    code: ClassVar[str] = "offpath"
    retryable: ClassVar[bool] = False


class InvalidArgument(OffpathError, ValueError):
    """A value given to the API cannot be used; the message says what to give instead."""

    code = "invalid_argument"


class InvalidInput(InvalidArgument):
    """Job input does not fit the task's signature; the message has the path of the value."""

    code = "invalid_input"


class TooLarge(InvalidArgument):
    """An input or payload is over the configured limit (both are named, in bytes)."""

    code = "too_large"


class WrongConnection(InvalidArgument):
    """``within=`` was given a connection that this app cannot join."""

    code = "wrong_connection"


class ConfigurationError(OffpathError):
    """Settings, environment or project file are wrong."""

    code = "configuration"


class AppClosed(OffpathError):
    """The app is closed, or the call needs an open one."""

    code = "app_closed"


class NotFound(OffpathError, LookupError):
    """The thing that was named is not in the store: it never was, or is not there any more."""

    code = "not_found"


class JobNotFound(NotFound):
    """No job of this id is in the store: it never was, or its retention has passed."""

    code = "job_not_found"


class MessageNotFound(NotFound):
    """There is no message with this id; it may have been deleted after its retention."""

    code = "message_not_found"


class ScheduleNotFound(NotFound):
    """There is no schedule of this name."""

    code = "schedule_not_found"


class EndpointNotFound(NotFound):
    """There is no webhook endpoint of this name."""

    code = "endpoint_not_found"


class RouterNotFound(NotFound):
    """There is no router of this name, in the app or in the store."""

    code = "router_not_found"


class LetterNotFound(NotFound):
    """The router has no unresolved dead letter of this id."""

    code = "letter_not_found"
