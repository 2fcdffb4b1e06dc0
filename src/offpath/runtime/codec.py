"""Values to text and back: how inputs and results are stored. Text only; never code.

The stored form is JSON through msgspec. Another form (encrypted, compressed, another library) is
one class with two methods, given to an app or a task.
"""

# ruff: noqa: ANN401 - a codec takes and gives values of any type

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Protocol

import msgspec

from offpath.errors import InvalidArgument, UnsupportedType
from offpath.runtime.hooks import CodecHooks, Dump, Load
from offpath.runtime.locate import culprit, not_finite, reason
from offpath.runtime.shape import ValueShape
from offpath.runtime.unquoted import unquoted, unquoted_json


class Codec(Protocol):
    """Turns values into text and back.

    ``encode`` gets any value a task's signature allows, wrapped in a msgspec Struct for inputs.
    ``decode`` gets that text and the annotated type, and must check the one against the other.
    Both raise ValueError or TypeError for what they cannot do.
    """

    def encode(self, value: Any) -> str:
        """``value`` as text, without lone surrogates."""
        ...

    def decode(self, text: str, type: Any) -> Any:  # noqa: A002 - msgspec's word for it
        """The value of this type that ``text`` holds."""
        ...


class JsonCodec:
    """JSON, checked against the annotated type on the way in and out.

    ``types`` teaches it types of your own::

        JsonCodec(types={Money: (str, Money.parse)})
    """

    __slots__ = ("_decoders", "_encode", "hooks")

    def __init__(self, types: Mapping[type, tuple[Dump, Load]] | None = None) -> None:
        self.hooks = CodecHooks(types)
        self._encode = msgspec.json.Encoder(enc_hook=self.hooks.dump).encode
        self._decoders: dict[Any, Callable[[str], Any]] = {}

    def encode(self, value: Any) -> str:
        """``value`` as JSON; raises InvalidArgument with the path of what JSON cannot hold."""
        try:
            text = self._encode(value).decode()
        except Exception as error:  # noqa: BLE001 - hooks are the user's code and raise what they like
            refusal = self._refusal(value, error)
            raise refusal from (error if str(error) in str(refusal) else None)
        # NaN becomes null, so only a text with a null in it can hide one.
        if "null" in text and (path := not_finite(value)):
            raise InvalidArgument(f"NaN and infinity cannot be written as JSON - at `{path}`")
        return text

    def decode(self, text: str, type: Any) -> Any:  # noqa: A002 - the protocol's word
        """The ``type`` in ``text``; raises InvalidArgument with the path of what does not fit."""
        try:
            return self.decoder(type)(text)
        except UnsupportedType:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            refusal = InvalidArgument(unquoted_json(shown(error), text))
            # a traceback would repeat an error whose own text quotes a value
            raise refusal from (error if str(error) in str(refusal) else None)

    def decoder(self, type: Any) -> Callable[[str], Any]:  # noqa: A002 - as above
        """A fast function from text to ``type``; raises UnsupportedType when there can be none."""
        try:
            return self._decoders[type]
        except KeyError:
            return self._decoders.setdefault(type, self._decoder(type))
        except TypeError:  # an annotation that cannot be hashed
            return self._decoder(type)

    def _decoder(self, kind: Any) -> Callable[[str], Any]:
        shape = ValueShape(kind, self.hooks, f"type {kind!r}")
        decode: Callable[[str], Any] = msgspec.json.Decoder(
            shape.wire, dec_hook=self.hooks.load
        ).decode
        if shape.adapter is None:
            return decode
        return lambda text: shape.unpack(decode(text))

    def _refusal(self, value: Any, error: Exception) -> InvalidArgument:
        path, why = culprit(value, self._encode) or ("$", reason(error))
        return InvalidArgument(f"{unquoted(why, value)} - at `{path}`")


def shown(error: Exception) -> str:
    """A validation error's text without the offending value, which may be secret."""
    if isinstance(error, RecursionError):
        return reason(error)
    if not isinstance(error, ValueError | TypeError):
        return f"{type(error).__name__}: {error}"
    return _VALUE.sub(r"\1", str(error))


_VALUE = re.compile(r"^(Invalid (?:enum )?value) .*?(?= - at |$)", re.DOTALL)


class Fingerprints:
    """Fingerprints of two parts, of which the first is always the same.

    The same values as those of :func:`fingerprint`, in less than half of the time: to begin a hash
    takes longer than to hash what a job is given.
    """

    __slots__ = ("_begun",)

    def __init__(self, first: str) -> None:
        self._begun = sha256(_part(first))

    def of(self, second: str) -> str:
        """The fingerprint of the two."""
        begun = self._begun.copy()
        begun.update(_part(second))
        return begun.hexdigest()[:32]


def _part(text: str) -> bytes:
    encoded = text.encode()
    return b"%d:%b" % (len(encoded), encoded)


def fingerprint(*parts: str) -> str:
    """A short hash (32 hex characters) of ``parts`` in order: equal parts, equal hash."""
    return sha256(b"".join(map(_part, parts))).hexdigest()[:32]
