"""Rates: how many may start now. Pure arithmetic over a small state that the store keeps."""

from __future__ import annotations

import math

import msgspec
from msgspec import Struct

from offpath.model.limit import Algorithm, RateSpec

_SLACK = 1e-9
"""Of a start: sums of shares of a second must not lose a whole one to rounding."""


class RateState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a rate for a key. ``at`` is seconds of the store's clock."""

    at: float
    """Token bucket: when ``level`` held. Windows: when the current one began."""
    level: float = 0.0
    """Token bucket: tokens left. Windows: starts in the current one."""
    before: float = 0.0
    """Sliding window: starts in the window before."""
    algorithm: Algorithm | None = None
    """The algorithm that counted so. Another algorithm starts anew, since left tokens are not
    starts. None, as a release before this field wrote it, stands for the rate's own.
    """


class Taken(Struct, frozen=True, kw_only=True):
    """An answer: ``granted`` starts, the state after them, and when one more is allowed."""

    granted: int
    state: RateState
    next_in: float
    """Seconds until as many starts as were asked for at least are allowed; 0: they still are."""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(RateState)


def encode_state(state: RateState) -> str:
    """The text that is stored with a key."""
    return _encoder.encode(state).decode()


def decode_state(text: str | None) -> RateState | None:
    """The state that :func:`encode_state` wrote."""
    return None if text is None else _decoder.decode(text)


def take(spec: RateSpec, state: RateState | None, now: float, wanted: int, least: int = 1) -> Taken:
    """Take up to ``wanted`` starts at ``now``. A start that is not granted costs nothing.

    ``next_in`` is the wait for ``least`` starts at once. A clock that goes back gives nothing away:
    time before the state's own counts as that.
    """
    if state is not None and state.algorithm not in {None, spec.algorithm}:
        state = None
    match spec.algorithm:
        case Algorithm.TOKEN_BUCKET:
            return _from_bucket(spec, state, now, wanted, least)
        case Algorithm.FIXED_WINDOW:
            return _in_fixed_window(spec, state, now, wanted, least)
        case Algorithm.SLIDING_WINDOW:
            return _in_sliding_window(spec, state, now, wanted, least)


def _from_bucket(
    spec: RateSpec, state: RateState | None, now: float, wanted: int, least: int
) -> Taken:
    refill = spec.count / spec.per
    if state is None:
        level, at = float(spec.count), now
    else:
        at = max(now, state.at)
        level = min(float(spec.count), state.level + (at - state.at) * refill)
    granted = _whole(level, wanted)
    left = max(level - granted, 0.0)
    missing = least - left
    return Taken(
        granted=granted,
        state=RateState(at=at, level=left, algorithm=spec.algorithm),
        next_in=missing / refill if missing > _SLACK else 0.0,
    )


def _in_fixed_window(
    spec: RateSpec, state: RateState | None, now: float, wanted: int, least: int
) -> Taken:
    at, used = (now, 0.0) if state is None else (state.at, state.level)
    now = max(now, at)
    if now - at >= spec.per or used == 0:
        at, used = now, 0.0
    granted = _whole(spec.count - used, wanted)
    used += granted
    return Taken(
        granted=granted,
        state=RateState(at=at, level=used, algorithm=spec.algorithm),
        next_in=0.0 if used + least <= spec.count else max(at + spec.per - now, 0.0),
    )


def _in_sliding_window(
    spec: RateSpec, state: RateState | None, now: float, wanted: int, least: int
) -> Taken:
    now = now if state is None else max(now, state.at)
    at = math.floor(now / spec.per) * spec.per
    before, used = _shifted(spec, state, at)
    weight = 1.0 - (now - at) / spec.per
    granted = _whole(spec.count - before * weight - used, wanted)
    used += granted
    return Taken(
        granted=granted,
        state=RateState(at=at, level=used, before=before, algorithm=spec.algorithm),
        next_in=_until_room(spec, at, now, before, used, least),
    )


def _shifted(spec: RateSpec, state: RateState | None, at: float) -> tuple[float, float]:
    """Starts in the window before the one that began at ``at``, and in that one."""
    if state is None or at - state.at > spec.per * 1.5:
        return 0.0, 0.0
    if at - state.at > spec.per * 0.5:
        return state.level, 0.0
    return state.before, state.level


def _until_room(
    spec: RateSpec, at: float, now: float, before: float, used: float, least: int
) -> float:
    """The wait until the weight of the window before has fallen far enough, or for the next one."""
    room = spec.count - least - used
    if room >= 0:
        share = 1.0 if before == 0 else min(room / before, 1.0)
        return max(at + spec.per * (1.0 - share) - now, 0.0)
    # in the next window the starts of this one are those before
    share = min((spec.count - least) / used, 1.0)
    return max(at + spec.per + spec.per * (1.0 - share) - now, 0.0)


def _whole(room: float, wanted: int) -> int:
    return max(min(math.floor(room + _SLACK), wanted), 0)
