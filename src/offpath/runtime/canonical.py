"""One text for equal values, whatever the order of their dicts and sets: for fingerprints."""

# ruff: noqa: ANN401 - a codec takes and gives values of any type

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from offpath.runtime.hooks import CodecHooks


def canonical(value: Any, hooks: CodecHooks) -> str:
    """JSON of ``value`` with dict keys and set members sorted."""
    try:
        # Fails for keys that are not text and members that cannot be compared: rare, and slow
        # below.
        encoder = msgspec.json.Encoder(enc_hook=hooks.dump, order="deterministic")
        return encoder.encode(value).decode()
    except TypeError:
        return _text(_ordered(value, hooks), hooks)


def _text(value: Any, hooks: CodecHooks) -> str:
    return msgspec.json.encode(value, enc_hook=hooks.dump).decode()


def _ordered(value: Any, hooks: CodecHooks) -> Any:
    if isinstance(value, Mapping):
        pairs = [(_key(key, hooks), _ordered(part, hooks)) for key, part in value.items()]
        return dict(sorted(pairs, key=lambda pair: pair[0]))
    if isinstance(value, set | frozenset):
        return sorted((_ordered(part, hooks) for part in value), key=lambda one: _text(one, hooks))
    if isinstance(value, list | tuple):
        return [_ordered(part, hooks) for part in value]
    fields = _fields(value)
    if fields is None:
        return value
    return {name: _ordered(part, hooks) for name, part in fields.items()}


def _key(key: Any, hooks: CodecHooks) -> str:
    """The text of this key in JSON."""
    return next(iter(msgspec.json.decode(_text({key: 0}, hooks), type=dict[str, int])))


def _fields(value: Any) -> dict[str, Any] | None:
    """The fields of a dataclass, attrs object or Struct; None for anything else."""
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    names = getattr(value, "__dataclass_fields__", None)
    if names is None:
        names = [one.name for one in getattr(value, "__attrs_attrs__", ())]
    return {name: getattr(value, name) for name in names} or None
