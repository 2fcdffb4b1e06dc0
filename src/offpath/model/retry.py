"""The time when a failed attempt runs again: the whole arithmetic, without a clock and without
chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum

import msgspec
from msgspec import Struct

from offpath.errors import InvalidArgument
from offpath.model import checks

MAX_ATTEMPTS = 2**31 - 1

BackoffFunction = Callable[[int], float | timedelta]
"""Takes the number of failed attempts so far (1 after the first) and gives the wait."""


class BackoffKind(StrEnum):
    """The growth of the wait."""

    EXPONENTIAL = "exponential"
    """``min(base * factor ** (n - 1), cap)``, shortened by up to the share ``jitter``."""
    HALF_JITTER = "half_jitter"
    """Anywhere between half of ``min(base * factor ** n, cap)`` and the whole of it."""
    CUSTOM = "custom"
    """The function of the task decides; it is not stored, so the worker uses the one it has."""


class RetryPolicy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A complete policy, as it is stored with a job.

    ``attempts`` counts the first run too; ``base`` and ``cap`` are seconds.
    """

    attempts: int = 3
    base: float = 1.0
    factor: float = 2.0
    cap: float = 30.0
    jitter: float = 0.5
    kind: BackoffKind = BackoffKind.EXPONENTIAL

    def allows(self, attempt: int) -> bool:
        """True if another attempt may follow this one (1 is the first)."""
        return attempt < self.attempts


DEFAULT_POLICY = RetryPolicy()


class RetryOptions(Struct, frozen=True, kw_only=True):
    """Part of a retry policy: what is None is left to the level below.

    Levels, highest first: given when the job is queued, computed from its input, the task's, the
    app's, the built-in ones (3 attempts, 1 s, doubling, at most 30 s, up to half of it off).
    """

    attempts: int | None = None
    """Runs in all, the first one included; at least 1."""
    base: float | timedelta | None = None
    """The wait after the first failure, in seconds."""
    factor: float | None = None
    """The factor by which each further wait is longer."""
    cap: float | timedelta | None = None
    """The longest wait, in seconds."""
    jitter: float | None = None
    """Share of the wait that chance may take off, 0 to 1."""
    kind: BackoffKind | None = None
    function: BackoffFunction | None = None
    """For ``BackoffKind.CUSTOM``; possible for tasks and apps only."""


class Backoff:
    """The ways to wait between attempts, each as :class:`RetryOptions`."""

    @staticmethod
    def exponential(
        *,
        base: float | timedelta = 1.0,
        factor: float = 2.0,
        cap: float | timedelta = 30.0,
        jitter: float = 0.5,
        attempts: int | None = None,
    ) -> RetryOptions:
        """``base``, then ``factor`` times as long each time, at most ``cap``, less the jitter."""
        return RetryOptions(
            attempts=attempts,
            base=base,
            factor=factor,
            cap=cap,
            jitter=jitter,
            kind=BackoffKind.EXPONENTIAL,
        )

    @staticmethod
    def half_jitter(
        *,
        base: float | timedelta = 0.5,
        cap: float | timedelta = 60.0,
        attempts: int | None = None,
    ) -> RetryOptions:
        """Chance decides between half and the whole of ``min(base * 2 ** n, cap)``.

        With the defaults: 0.5 to 1 s, 1 to 2 s, 2 to 4 s, and so on up to 30 to 60 s.
        """
        return RetryOptions(
            attempts=attempts, base=base, factor=2.0, cap=cap, kind=BackoffKind.HALF_JITTER
        )

    @staticmethod
    def constant(wait: float | timedelta, *, attempts: int | None = None) -> RetryOptions:
        """The same wait each time."""
        return Backoff.exponential(base=wait, factor=1.0, cap=wait, jitter=0.0, attempts=attempts)

    @staticmethod
    def custom(function: BackoffFunction, *, attempts: int | None = None) -> RetryOptions:
        """``function(n)`` gives the wait after the n-th failure.

        For tasks and apps only: a function cannot be stored with a job. When it raises or gives
        something that is not a wait, the exponential default takes its place and the error is
        reported.
        """
        return RetryOptions(attempts=attempts, kind=BackoffKind.CUSTOM, function=function)


def delay(policy: RetryPolicy, failures: int, random01: float) -> float:
    """Seconds to wait after the ``failures``-th failure (1 is the first).

    ``random01`` is in [0, 1). A custom policy whose function is not at hand waits exponentially.
    """
    if policy.kind is BackoffKind.HALF_JITTER:
        whole = min(_grown(policy.base, policy.factor, failures), policy.cap)
        return whole * (0.5 + 0.5 * random01)
    whole = min(_grown(policy.base, policy.factor, max(0, failures - 1)), policy.cap)
    return whole * (1.0 - policy.jitter * random01)


def custom_delay(function: BackoffFunction, failures: int) -> float:
    """Ask a user's function. Raises whatever it raises, and ``InvalidArgument`` for no wait."""
    return checks.seconds(function(failures), "what the backoff function returned")


def as_retry(value: RetryOptions | RetryPolicy | int) -> RetryOptions:
    """The policy of a user's ``retry=``, checked. An int is the number of attempts."""
    if isinstance(value, RetryPolicy):
        return checked_retry(RetryOptions(**msgspec.structs.asdict(value)))
    if isinstance(value, RetryOptions):
        return checked_retry(value)
    return checked_retry(RetryOptions(attempts=value))


def checked_retry(options: RetryOptions) -> RetryOptions:
    """The same options with durations as seconds. Raises ``InvalidArgument``."""
    _check_function(options)
    return RetryOptions(
        attempts=_optional_attempts(options.attempts),
        base=_optional_seconds(options.base, "retry base"),
        factor=_optional_number(options.factor, "retry factor", least=1.0, most=1e6),
        cap=_optional_seconds(options.cap, "retry cap"),
        jitter=_optional_number(options.jitter, "retry jitter", least=0.0, most=1.0),
        kind=None if options.kind is None else BackoffKind(options.kind),
        function=options.function,
    )


def merged_retry(
    levels: tuple[RetryOptions | None, ...],
) -> tuple[RetryPolicy, BackoffFunction | None]:
    """One complete policy from levels, highest first, field by field; and its function."""
    found: dict[str, object] = {}
    for level in levels:
        if level is not None:
            for name in RetryOptions.__struct_fields__:
                value = getattr(level, name)
                if value is not None:
                    found.setdefault(name, value)
    function = found.pop("function", None)
    policy = RetryPolicy(**found) if found else DEFAULT_POLICY  # type: ignore[arg-type]
    return policy, function if policy.kind is BackoffKind.CUSTOM else None  # type: ignore[return-value]


def _grown(base: float, factor: float, exponent: int) -> float:
    try:
        return base * factor**exponent
    except OverflowError:  # only a huge exponent gets here: the cap applies
        return math.inf if base else 0.0


def _check_function(options: RetryOptions) -> None:
    custom = options.kind == BackoffKind.CUSTOM
    if options.function is not None and not (custom and callable(options.function)):
        raise InvalidArgument(
            "a backoff function goes with kind=BackoffKind.CUSTOM: use Backoff.custom(function)"
        )


def _optional_attempts(value: int | None) -> int | None:
    if value is None:
        return None
    if value == 0:  # False too: whoever writes that wants what 1 means
        raise InvalidArgument(
            f"retry={value!r} is not a number of attempts, the first included: 1 is never again"
        )
    return checks.integer(value, "retry attempts", least=1, most=MAX_ATTEMPTS)


def _optional_seconds(value: float | timedelta | None, what: str) -> float | None:
    return value if value is None else checks.seconds(value, what)


def _optional_number(value: float | None, what: str, *, least: float, most: float) -> float | None:
    return value if value is None else checks.number(value, what, least=least, most=most)
