"""Settings of an economy: argument > environment (``OFFPATH_ECONOMY_*``) > default.

Everything that is wrong is told at once, in one ``EconomyConfigInvalid``.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, get_type_hints

import msgspec

from offpath.economy.ledger.settings import SETTINGS, EconomySettings
from offpath.model.ledger.faults import EconomyConfigInvalid

PREFIX: Final = "OFFPATH_ECONOMY_"
_HINTS: Final = get_type_hints(EconomySettings, include_extras=True)
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_DURATION: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\s*")
_LISTS: Final = frozenset({"top_up_bundles_minor", "contain"})
_NONE: Final = frozenset({"none", "forever"})


def load_economy_settings(
    *,
    environ: Mapping[str, str] | None = None,
    **given: Any,  # noqa: ANN401 - checked below
) -> EconomySettings:
    """Settings from everywhere, the nearest first. None as an argument means: not given.

    Durations are seconds, or have a unit (``500ms``, ``72h``, ``7d``); bundles are separated by
    commas; times are ISO 8601 with a zone. Raises ``EconomyConfigInvalid``.
    """
    variables = os.environ if environ is None else environ
    wrong = _unknown(variables, given)
    values: dict[str, Any] = {}
    origins: list[tuple[str, str]] = []
    for name in SETTINGS:
        found = _found(name, variables, given)
        if found is None:
            continue
        try:
            values[name] = _value(name, found[0])
            origins.append((name, found[1]))
        except (msgspec.ValidationError, ValueError, TypeError) as error:
            wrong.append(f"{name}, from {found[1]}: {error}")
    if not wrong:
        settings = EconomySettings(**values, origins=tuple(origins))
        wrong = settings.faults()
        if not wrong:
            return settings
    raise EconomyConfigInvalid("the economy's settings cannot be used: " + "; ".join(wrong))


def _unknown(variables: Mapping[str, str], given: Mapping[str, Any]) -> list[str]:
    known = {f"{PREFIX}{name.upper()}" for name in SETTINGS}
    wrong = [_no_setting(name, SETTINGS) for name in sorted(set(given) - set(SETTINGS))]
    wrong += [
        _no_setting(name, known)
        for name in sorted(variables)
        if name.startswith(PREFIX) and name not in known
    ]
    return wrong


def _no_setting(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"there is no setting {name}" + (f"; did you mean {near[0]}?" if near else "")


def _found(
    name: str, variables: Mapping[str, str], given: Mapping[str, Any]
) -> tuple[Any, str] | None:
    if given.get(name) is not None:
        return given[name], "argument"
    variable = f"{PREFIX}{name.upper()}"
    if variables.get(variable):
        return variables[variable], f"environment ({variable})"
    return None


def _value(name: str, given: Any) -> Any:  # noqa: ANN401 - as the field's type says
    if isinstance(given, timedelta):
        given = given.total_seconds()
    if not isinstance(given, str):
        if isinstance(given, bool):
            raise TypeError("true and false are not numbers")
        return given if isinstance(given, datetime) else msgspec.convert(given, _HINTS[name])
    if given.strip().lower() in _NONE:
        return msgspec.convert([] if name in _LISTS else None, _HINTS[name])
    if name in _LISTS:
        given = [part.strip() for part in given.split(",") if part.strip()]
    elif (match := _DURATION.fullmatch(given)) is not None:
        given = float(match[1]) * _UNITS[match[2]]
    return msgspec.convert(given, _HINTS[name], strict=False)
