"""The values of groups: what a task's annotation says of them, to text and back, and folded."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from offpath.errors import GroupValueError, InvalidArgument, OffpathError, TooLarge, UnsupportedType
from offpath.jobs.values.group_codecs import GroupCodecs, parted
from offpath.jobs.values.plan import Plan
from offpath.runtime.codec import Codec, JsonCodec
from offpath.runtime.parameters import return_type
from offpath.runtime.signature import ResultModel

if TYPE_CHECKING:
    from offpath.model.group import Fold

Reducer = Callable[[Any, Any], Any]
"""Takes the group's value so far and a new one, and gives the next."""

_NATIVE = (bool, int, float, str, list, dict, type(None))
"""Types that come back from text as they are."""


_BROKEN = "!offpath group value: "
"""The beginning of the stored text of a value that could not be made: no JSON begins so."""


class GroupValues:
    """The form in which the values of a task's group are written and read.

    Any task may have written the value that is read: :mod:`offpath.jobs.values.group_codecs`.
    """

    __slots__ = ("_codec", "_codecs", "_name", "_readers", "_type", "_typed", "signs", "type")

    def __init__(self, annotation: Any, codec: Codec, name: str, codecs: GroupCodecs) -> None:  # noqa: ANN401
        self._name = name
        self._codec = codec
        self._codecs = codecs
        self._type = self.type = annotation
        self._typed = annotation is not Any
        self._readers: dict[tuple[int, Any], ResultModel] = {}
        self.signs = codec is not codecs.app
        """True if its values name its task: the task has a codec of its own."""
        self._reader(codec, annotation)  # an annotation that cannot be written is refused here

    def encode(self, value: Any) -> str | None:  # noqa: ANN401
        """The text to store, None for nothing. Raises ``InvalidArgument``."""
        text = self._reader(self._codec, self._kind(value)).encode(value)
        return None if text is None else self.signed(text)

    def signed(self, text: str) -> str:
        """The text of a value of its task, as a group keeps it."""
        return self._codecs.signed(text, self._name, self._codec)

    def decode(self, text: str | None) -> Any:  # noqa: ANN401
        """The value in stored text.

        Raises ``GroupValueError`` when there is none, and ``InvalidArgument`` when it is not as
        annotated.
        """
        return self._decode(text, self._type)

    def _decode(self, text: str | None, kind: Any) -> Any:  # noqa: ANN401
        if text is None:
            return None
        writer, plain = parted(whole(text))
        return self._reader_of(self._codecs.of(writer), kind).decode(plain)

    def fold(self, reducer: Reducer, value: Any, limit: int) -> Fold:  # noqa: ANN401
        """``reducer`` over stored text. ``value`` shows what type the values have.

        A reducer that fails, or a value that grows too large, is not the fault of the member
        whose turn it was: its work is done. The group's value says so instead, and stays so.
        """
        kind = self._kind(value)
        model = self._reader(self._codec, kind)

        def folded(so_far: str, new: str) -> str:
            text = model.encode(reducer(self._decode(so_far, kind), self._decode(new, kind)))
            if text is None:
                raise InvalidArgument("append= must return the next value of the group, not None")
            return checked_size(self.signed(text), limit, "the group's value")

        def fold(so_far: str | None, new: str) -> str:
            if so_far is None or so_far.startswith(_BROKEN):
                return so_far or new
            try:
                return folded(so_far, new)
            except Exception as error:  # noqa: BLE001 - the user's reducer: told to whoever waits
                return _BROKEN + _told(error)

        return fold

    def _kind(self, value: Any) -> Any:  # noqa: ANN401
        kind = type(value)
        return self._type if self._typed or kind in _NATIVE else kind

    def _reader_of(self, codec: Codec, kind: Any) -> ResultModel:  # noqa: ANN401
        """The reader of this type in another task's text. Raises ``UnsupportedType``."""
        try:
            return self._reader(codec, kind)
        except UnsupportedType:
            # JSON is JSON: where its writer was not taught the whole annotation, this task was.
            if isinstance(codec, JsonCodec) and isinstance(self._codec, JsonCodec):
                return self._reader(self._codec, kind)
            raise

    def _reader(self, codec: Codec, kind: Any) -> ResultModel:  # noqa: ANN401
        try:
            return self._readers[id(codec), kind]
        except KeyError:
            made = ResultModel(kind, codec=codec, name=self._name)
            return self._readers.setdefault((id(codec), kind), made)
        except TypeError:  # an annotation that cannot be hashed
            return ResultModel(kind, codec=codec, name=self._name)


def whole(text: str) -> str:
    """The text of a group's value. Raises ``GroupValueError`` when it tells why there is none."""
    if text.startswith(_BROKEN):
        raise GroupValueError(text.removeprefix(_BROKEN))
    return text


def plain_value(text: str | None, codecs: GroupCodecs) -> Any:  # noqa: ANN401
    """The value in a group's text, as plain data. Raises ``InvalidArgument``."""
    if text is None:
        return None
    writer, plain = parted(whole(text))
    return ResultModel(Any, codec=codecs.of(writer), what="the group").decode(plain)


def _told(error: Exception) -> str:
    """The record of an error; a foreign error's text may quote what members gave."""
    if isinstance(error, OffpathError):
        return f"the values of its members could not be folded: {error}"
    return f"append= raised {type(error).__name__} on the values of its members"


def checked_size(text: str, limit: int, what: str) -> str:
    """``text``, if it has no more than ``limit`` bytes. Raises ``TooLarge``."""
    # Four bytes are the most that a character can take: most results need no counting.
    if len(text) * 4 > limit and (size := len(text.encode())) > limit:
        raise TooLarge(f"{what} has {size} bytes encoded; max_result_bytes is {limit}")
    return text


def returned_types(function: Callable[..., Any], name: str) -> tuple[Any, Any]:
    """The types of a handler's own result and of its group's value, by its annotation."""
    annotation = return_type(function, f"task {name!r}")
    members = _members(annotation)
    if not any(_is_plan(member) for member in members):
        return annotation, annotation
    pairs = [_plan_types(one) if _is_plan(one) else (one, one) for one in members]
    own, group = ([pair[index] for pair in pairs] for index in (0, 1))
    return _union(own), _union([one for one in group if one not in _NOTHING] or [None])


_NOTHING = (None, type(None))


def _members(annotation: Any) -> tuple[Any, ...]:  # noqa: ANN401
    union = get_origin(annotation) in {Union, types.UnionType}
    return get_args(annotation) if union else (annotation,)


def _is_plan(kind: Any) -> bool:  # noqa: ANN401
    return kind is Plan or get_origin(kind) is Plan


def _plan_types(kind: Any) -> tuple[Any, Any]:  # noqa: ANN401
    found = get_args(kind)
    return (found[0], found[1]) if found else (Any, Any)


def _union(kinds: list[Any]) -> Any:  # noqa: ANN401
    return Any if Any in kinds else Union[tuple(kinds)]  # noqa: UP007 - made at run time
