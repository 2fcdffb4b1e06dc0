"""A task's input and result, as its function declares them: built once, used for every job."""

# ruff: noqa: ANN401 - a codec takes and gives values of any type

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, Protocol

import msgspec
from msgspec import UNSET, Struct, defstruct

from offpath.errors import InvalidArgument, InvalidInput, TaskError
from offpath.runtime.canonical import canonical
from offpath.runtime.codec import Codec, Fingerprints, JsonCodec, shown
from offpath.runtime.hooks import CodecHooks
from offpath.runtime.parameters import Kind, Parameter, parameters, return_type
from offpath.runtime.round_trip import changed, in_utc, naive
from offpath.runtime.shape import EXACT, ValueShape
from offpath.runtime.unquoted import unquoted, unquoted_json

_DEFAULTED = (Kind.POSITIONAL_ONLY, Kind.POSITIONAL_OR_KEYWORD, Kind.KEYWORD_ONLY)

Bound = Struct
"""A task's arguments, bound to its parameters and checked. Opaque: made by ``InputModel.bind``."""

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments, to call the function with."""

_SHARED = JsonCodec()


class InputModel:
    """The input of one task: binds a call's arguments, checks, encodes and decodes them.

    A parameter that is not given is not stored: the function's own default counts when it runs.
    Parameters without an annotation take whatever JSON holds (and come back as JSON gives them).

    Raises TaskError or UnsupportedType when a signature cannot be stored.
    """

    __slots__ = (
        "_check",
        "_encode",
        "_layout",
        "_prints",
        "_read",
        "_shapes",
        "_type",
        "_zoned",
        "name",
        "parameters",
        "signature",
    )

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        context: bool = False,
        codec: Codec = _SHARED,
        name: str | None = None,
    ) -> None:
        self.name = name or str(getattr(function, "__name__", type(function).__name__))
        self._prints = Fingerprints(self.name)
        where = f"task {self.name!r}"
        signature, read = parameters(function, context=context, where=where)
        self.signature = signature
        """Without the context."""
        self.parameters = read
        hooks = _hooks(codec)
        shapes = {
            one.name: ValueShape(one.type, hooks, f"{where}: parameter {one.name!r}")
            for one in read
        }
        self._shapes = {name: shape for name, shape in shapes.items() if shape.adapter}
        wire = {name: shape.wire for name, shape in shapes.items()}
        self._layout: _Layout = _layout(signature, read, wire)
        self._type = self._layout.type
        plain = all(shape.plain for shape in shapes.values())
        self._check = _converter(self._type, hooks, plain=plain)
        self._zoned = _any_zone(self._type)
        self._encode = codec.encode
        self._read = _decoder(codec, self._type)
        for one in read:
            if not one.required and one.kind in _DEFAULTED:
                default = signature.parameters[one.name].default
                self._require_default(one, default, shapes[one.name], where)

    def _require_default(
        self, one: Parameter, default: object, shape: ValueShape, where: str
    ) -> None:
        """Refuse a default that a caller could not give: it counts as if one had."""
        if default is ...:  # of a task of another service, whose default counts
            return
        try:
            value = shape.pack(default) if shape.adapter else default
            _converter(shape.wire, self._check.hooks, plain=shape.plain).convert(value)
        except Exception as error:
            raise TaskError(
                f"{where}: the default of parameter {one.name!r} is not of its type: "
                f"{unquoted(shown(error), {one.name: default})}; annotate it as what it may be"
            ) from error

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Bound:
        """Check a call's arguments; raises InvalidInput with the path of what does not fit.

        Nothing is converted on the way but what Python itself would: text is not taken for a
        number or a date.
        """
        values = self._collect(args, kwargs)
        try:
            for name, shape in self._shapes.items():
                if name in values:
                    values[name] = _pack(shape, values[name], name)
            bound: Bound = self._check.convert(values)
        except Exception as error:  # noqa: BLE001 - a validator of the user's raises what it likes
            self._refuse(error, unquoted(shown(error), values))
        return bound

    def encode(self, bound: Bound) -> str:
        """The text to store; raises InvalidInput when it would not read back as it is."""
        try:
            text = self._encode(bound)
            if not self._check.plain:
                text = _kept(bound, text, self._encode, self._read)
                if self._zoned:
                    _refuse_naive(bound)
        except Exception as error:  # noqa: BLE001 - as above
            self._refuse(error, unquoted(shown(error), self._layout.spread(bound)))
        return text

    def decode(self, text: str) -> Arguments:
        """The arguments in stored text, checked again; raises InvalidInput."""
        return self.arguments(self._decode(text))

    def from_json(self, text: str | bytes) -> Bound:
        """Bind arguments given as a JSON object (``{"a": 1}``), as a command line has them."""
        try:
            bound: Bound = msgspec.json.decode(
                text, type=self._type, dec_hook=self._check.hooks.load
            )
        except Exception as error:  # noqa: BLE001 - as above
            self._refuse(error, unquoted_json(shown(error), text))
        self.arguments(bound)
        return bound

    def arguments(self, bound: Bound) -> Arguments:
        """The arguments of the function, without the context."""
        if self._shapes:
            bound = self._unpacked(bound)
        return self._layout.spread(bound)

    def fingerprint(self, bound: Bound, text: str) -> str:
        """Tells a repeat of the same call from another one.

        ``text`` is ``bound`` encoded. The order of a dict or a set makes no difference.
        """
        same = self._check.plain and not self._check.nested
        return self._prints.of(text if same else canonical(bound, self._check.hooks))

    def schema(self) -> dict[str, Any]:
        """JSON schema of the stored object."""
        (_, made) = msgspec.json.schema_components(
            [self._type], schema_hook=self._check.hooks.schema, ref_template="#/$defs/{name}"
        )
        own = made.pop(self._type.__name__) | {"title": self.name}
        own["properties"] |= {name: shape.schema({}) for name, shape in self._shapes.items()}
        return _with_definitions(own, made)

    def _collect(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self._layout.collect(args, kwargs)
        except TypeError as error:
            self._refuse(error, str(error), len(args))

    def _decode(self, text: str) -> Bound:
        try:
            bound: Bound = self._read(text)
        except Exception as error:  # noqa: BLE001 - as above
            self._refuse(error, unquoted_json(shown(error), text))
        return bound

    def _unpacked(self, bound: Bound) -> Bound:
        changes: dict[str, Any] = {}
        for name, shape in self._shapes.items():
            field = self._layout.attribute(name)
            if (value := getattr(bound, field)) is not UNSET:
                try:
                    changes[field] = shape.unpack(value)
                except InvalidArgument as error:
                    self._refuse(error, f"{error} - at `$.{name}`")
        return msgspec.structs.replace(bound, **changes)

    def _refuse(self, error: Exception, text: str, given: int = 0) -> NoReturn:
        from offpath.runtime.call_hints import call_hint  # for a refusal alone

        told = f"{text}{call_hint(text, self.signature, given)}"
        refusal = InvalidInput(f"task {self.name!r}: {told}")
        # a traceback would repeat an error whose own text quotes a value
        raise refusal from (error if str(error) in text else None)


class ResultModel:
    """The result of one task, by its annotation. ``None`` is stored as no text at all."""

    __slots__ = ("_check", "_read", "_shape", "_what", "codec", "name", "type")

    def __init__(
        self,
        annotation: Any,
        *,
        codec: Codec = _SHARED,
        name: str = "",
        what: str | None = None,
    ) -> None:
        self.name = name
        self.type = annotation
        self._what = what or f"task {name!r}"
        hooks = _hooks(codec)
        self._shape = ValueShape(annotation, hooks, f"{self._what}: its result")
        self._check = _converter(self._shape.wire, hooks, plain=self._shape.plain)
        self.codec = codec
        """The codec that turns its values into text."""
        self._read = _decoder(codec, self._shape.wire)

    @classmethod
    def of(
        cls, function: Callable[..., Any], *, codec: Codec = _SHARED, name: str = ""
    ) -> ResultModel:
        """The model of a function's return annotation."""
        name = name or getattr(function, "__name__", "")
        return cls(return_type(function, f"task {name!r}"), codec=codec, name=name)

    def encode(self, value: Any) -> str | None:
        """The text to store; raises InvalidArgument when ``value`` is not as annotated."""
        if value is None and self.type in _NOTHING:
            return None
        try:
            checked = self._check.convert(self._shape.pack(value))
            if checked is None:
                return None
            text = self.codec.encode(checked)
            if not self._check.plain:
                text = _kept(checked, text, self.codec.encode, self._read, strict=False)
        except Exception as error:  # noqa: BLE001 - a validator of the user's raises what it likes
            self._refuse(error, unquoted(shown(error), value))
        return text

    def decode(self, text: str | None) -> Any:
        """The result in stored text; raises InvalidArgument when it does not fit any more."""
        if text is None:
            return None
        try:
            return self._shape.unpack(self._read(text))
        except Exception as error:  # noqa: BLE001 - as above
            self._refuse(error, unquoted_json(shown(error), text))

    def schema(self) -> dict[str, Any]:
        """JSON schema of the result."""
        if self._shape.adapter is not None:
            return self._shape.schema({})
        ((own,), made) = msgspec.json.schema_components(
            [self.type], schema_hook=self._check.hooks.schema, ref_template="#/$defs/{name}"
        )
        return _with_definitions(own, made)

    def _refuse(self, error: Exception, text: str) -> NoReturn:
        refusal = InvalidArgument(f"result of {self._what}: {text}")
        # a traceback would repeat an error whose own text quotes a value
        raise refusal from (error if str(error) in text else None)


_NOTHING = (None, type(None), Any)


def _kept(
    value: Any,
    text: str,
    encode: Callable[[Any], str],
    read: Callable[[str], Any],
    *,
    strict: bool = True,
) -> str:
    """The text of ``value``, from which it comes back as it is. Raises ``InvalidArgument``."""
    again = read(text)
    if again == value:
        return text
    path = changed(value, again, strict=strict)
    if path is None:
        return text
    moments = encode(in_utc(value))
    if changed(value, read(moments), strict=strict) is None:
        return moments
    raise InvalidArgument(
        "the value would come back from JSON as another one, or as one of another type: annotate "
        "its own type, or give what JSON has (text, numbers, lists, dicts with text keys) "
        f"- at `{path}`"
    )


def _any_zone(kind: Any) -> bool:
    """True if it has datetimes of which nothing says that they have no zone.

    An annotation that says so in one place is taken to know what it does.
    """
    told = repr(msgspec.inspect.type_info(kind))
    return "DateTimeType(tz=None)" in told and "DateTimeType(tz=False)" not in told


def _refuse_naive(value: Any) -> None:
    if path := naive(value):
        raise InvalidArgument(
            "a time without a zone is another moment on another machine: give one with a zone, "
            "datetime.now(UTC), or annotate a time of the clock on the wall as "
            f"Annotated[datetime, msgspec.Meta(tz=False)] - at `{path}`"
        )


class _Converter(Struct, frozen=True):
    """Checks Python values against a type."""

    convert: Callable[[Any], Any]
    hooks: CodecHooks
    plain: bool
    nested: bool


def _converter(kind: Any, hooks: CodecHooks, *, plain: bool) -> _Converter:
    if plain:
        # Naming the exact types costs half a microsecond a call and says nothing about these.
        def convert(value: Any) -> Any:
            return msgspec.convert(value, kind)
    else:

        def convert(value: Any) -> Any:
            return msgspec.convert(value, kind, builtin_types=EXACT, dec_hook=hooks.load)

    return _Converter(convert, hooks, plain, nested=_has_dict(kind))


def _has_dict(kind: Any) -> bool:
    return "DictType" in repr(msgspec.inspect.type_info(kind))


def _hooks(codec: Codec) -> CodecHooks:
    found = getattr(codec, "hooks", None)
    return found if isinstance(found, CodecHooks) else _SHARED.hooks


def _decoder(codec: Codec, kind: Any) -> Callable[[str], Any]:
    if isinstance(codec, JsonCodec):
        return codec.decoder(kind)
    return lambda text: codec.decode(text, kind)


def _pack(shape: ValueShape, value: Any, name: str) -> Any:
    try:
        return shape.pack(value)
    except InvalidArgument as error:
        raise InvalidArgument(f"{error} - at `$.{name}`") from error


def _with_definitions(own: dict[str, Any], made: dict[str, Any]) -> dict[str, Any]:
    """Put every nested ``$defs`` (pydantic makes them) at the root, where its references point."""
    found = dict(made)
    _hoist(own, found)
    for one in list(found.values()):
        _hoist(one, found)
    if found:
        own["$defs"] = found
    return own


def _hoist(node: Any, found: dict[str, Any]) -> None:
    if isinstance(node, dict):
        found.update(node.pop("$defs", {}))
        for one in list(node.values()):
            _hoist(one, found)
    elif isinstance(node, list):
        for one in node:
            _hoist(one, found)


class _Layout(Protocol):
    """The conversion of a call's arguments to a struct, and back."""

    type: Any

    def collect(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]: ...

    def spread(self, bound: Bound) -> Arguments: ...

    def attribute(self, name: str) -> str: ...


def _layout(
    signature: inspect.Signature, read: tuple[Parameter, ...], wire: dict[str, Any]
) -> _Layout:
    direct = {Kind.POSITIONAL_OR_KEYWORD, Kind.KEYWORD_ONLY}
    if all(one.kind in direct and not one.name.startswith("__") for one in read):
        return _DirectLayout(read, wire)
    return _FullLayout(signature, read, wire)


class _DirectLayout:
    """Named parameters only: a struct's own constructor binds them, in C."""

    __slots__ = ("_all", "_names", "_raw", "type")

    def __init__(self, read: tuple[Parameter, ...], wire: dict[str, Any]) -> None:
        self.type = _struct(read, wire, forbid_unknown_fields=True)
        self._raw = _struct(read, dict.fromkeys(wire, Any))
        self._names = self.type.__struct_fields__
        self._all = all(one.required and one.kind is not Kind.KEYWORD_ONLY for one in read)

    def collect(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        values = msgspec.structs.asdict(self._raw(*args, **kwargs))
        if self._all:
            return values
        return {name: value for name, value in values.items() if value is not UNSET}

    def spread(self, bound: Bound) -> Arguments:
        values = msgspec.structs.astuple(bound)
        if self._all:
            return values, {}
        given = zip(self._names, values, strict=True)
        return (), {name: value for name, value in given if value is not UNSET}

    def attribute(self, name: str) -> str:
        return name


def _struct(read: tuple[Parameter, ...], wire: Mapping[str, Any], **options: Any) -> Any:
    """A struct whose constructor takes what the function takes: keyword-only ones in a subclass."""
    base: Any = None
    for keywords in (False, True):
        fields = [
            _field(one.name, wire[one.name], one) for one in read if _is_keyword(one) is keywords
        ]
        bases = None if base is None else (base,)
        base = defstruct("Input", fields, bases=bases, kw_only=keywords, **options)
    return base


def _is_keyword(one: Parameter) -> bool:
    return one.kind is Kind.KEYWORD_ONLY


def _field(attribute: str, kind: Any, one: Parameter) -> Any:
    return (attribute, kind) if one.required else (attribute, kind, UNSET)


class _FullLayout:
    """Every kind of parameter: bound by inspect, kept under attributes that clash with nothing."""

    __slots__ = ("_attributes", "_read", "_signature", "type")

    def __init__(
        self, signature: inspect.Signature, read: tuple[Parameter, ...], wire: dict[str, Any]
    ) -> None:
        self._signature = signature
        self._read = read
        self._attributes = {one.name: f"p{index}" for index, one in enumerate(read)}
        names = {attribute: name for name, attribute in self._attributes.items()}
        fields = [_field(self._attributes[one.name], wire[one.name], one) for one in read]
        self.type = defstruct(
            "Input", fields, rename=names, kw_only=True, forbid_unknown_fields=True
        )

    def collect(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self._signature.bind(*args, **kwargs).arguments)

    def spread(self, bound: Bound) -> Arguments:
        positional: list[Any] = []
        named: dict[str, Any] = {}
        rest = self._rest(bound)
        for one in self._read:
            value = getattr(bound, self._attributes[one.name])
            if value is UNSET or one.kind is Kind.VAR_POSITIONAL:
                continue
            if one.kind is Kind.VAR_KEYWORD:
                named |= value
            elif one.kind is Kind.POSITIONAL_ONLY or (rest and not _is_keyword(one)):
                positional.append(value)
            else:
                named[one.name] = value
        return (*positional, *rest), named

    def attribute(self, name: str) -> str:
        return self._attributes[name]

    def _rest(self, bound: Bound) -> tuple[Any, ...]:
        for one in self._read:
            if one.kind is Kind.VAR_POSITIONAL:
                value = getattr(bound, self._attributes[one.name])
                return () if value is UNSET else tuple(value)
        return ()
