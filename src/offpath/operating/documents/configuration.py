"""Documents of a configuration: settings in force, schema steps, versions and extras."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from offpath.store.protocol import Migration


class SettingDocument(Struct, frozen=True, kw_only=True):
    """A setting in force. Secrets of it are hidden; durations are seconds."""

    name: str
    value: Any
    source: str
    """The place where it was given, or ``default``."""


class SchemaStepDocument(Struct, frozen=True, kw_only=True):
    """A schema step: ``applied_at`` is None while it is pending."""

    number: int
    name: str
    applied_at: datetime | None


class PackageDocument(Struct, frozen=True, kw_only=True):
    """A library that a part of offpath stands on; ``version`` is None where it is not installed."""

    name: str
    version: str | None


class ConfigurationDocument(Struct, frozen=True, kw_only=True):
    """The settings in force and what runs them. It holds no secret."""

    version: str
    """The version of offpath that answers."""
    python: str
    backend: str
    """The name of the store's backend: ``memory``, ``sqlite`` or ``postgres``."""
    settings: tuple[SettingDocument, ...]
    schema: tuple[SchemaStepDocument, ...]
    pending: int
    """Schema steps that are still to be applied."""
    packages: tuple[PackageDocument, ...]


def describe(
    *,
    version: str,
    python: str,
    backend: str,
    values: Mapping[str, Any],
    sources: Mapping[str, str],
    steps: Sequence[Migration],
    packages: Mapping[str, str | None],
) -> ConfigurationDocument:
    """The document of a configuration; ``values`` are those that may be shown."""
    return ConfigurationDocument(
        version=version,
        python=python,
        backend=backend,
        settings=tuple(
            SettingDocument(name=name, value=value, source=sources[name])
            for name, value in values.items()
        ),
        schema=tuple(
            SchemaStepDocument(number=one.number, name=one.name, applied_at=one.applied_at)
            for one in steps
        ),
        pending=sum(one.applied_at is None for one in steps),
        packages=tuple(
            PackageDocument(name=name, version=version) for name, version in packages.items()
        ),
    )
