"""The values of groups: what a task's annotation says of them, to text and back, and folded."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from offpath.errors import InvalidArgument, OffpathError, TooLarge
from offpath.jobs.plan import Plan
from offpath.runtime.codec import Codec
from offpath.runtime.parameters import return_type
from offpath.runtime.signature import ResultModel

if TYPE_CHECKING:
    from offpath.model.group import Fold

Reducer = Callable[[Any, Any], Any]
"""Takes the group's value so far and a new one, and gives the next."""

_NATIVE = (bool, int, float, str, list, dict, type(None))
"""Types that come back from text as they are."""


_BROKEN = "!offpath group value: "
"""What the stored text of a value that could not be made begins with: no JSON begins so."""


class GroupValueError(InvalidArgument):
    """A group has no value: what its members gave could not be folded, or became too large.

    The members themselves have succeeded; their results are kept as any.
    """

    code = "group_value"


class GroupValues:
    """How the values of a task's group are written and read.

    A group's value may come from any task, so it is always written by the app's codec.
    """

    __slots__ = ("_codec", "_kinds", "_model", "_name", "_typed")

    def __init__(self, annotation: Any, codec: Codec, name: str) -> None:  # noqa: ANN401
        self._name = name
        self._codec = codec
        self._model = ResultModel(annotation, codec=codec, name=name)
        self._typed = annotation is not Any
        self._kinds: dict[type, ResultModel] = {}

    def encode(self, value: Any) -> str | None:  # noqa: ANN401
        """The text to store, None for nothing. Raises ``InvalidArgument``."""
        return self._reading(value).encode(value)

    def decode(self, text: str | None) -> Any:  # noqa: ANN401
        """The value in stored text.

        Raises ``GroupValueError`` when there is none, and ``InvalidArgument`` when it is not as
        annotated.
        """
        if text is not None and text.startswith(_BROKEN):
            raise GroupValueError(text.removeprefix(_BROKEN))
        return self._model.decode(text)

    def fold(self, reducer: Reducer, value: Any, limit: int) -> Fold:  # noqa: ANN401
        """``reducer`` over stored text. ``value`` shows what type the values have.

        A reducer that fails, or a value that grows too large, is no fault of the member whose turn
        it was: its work is done. The group's value says so instead, and stays so.
        """
        model = self._reading(value)

        def folded(so_far: str, new: str) -> str:
            text = model.encode(reducer(model.decode(so_far), model.decode(new)))
            if text is None:
                raise InvalidArgument("append= must return the next value of the group, not None")
            return checked_size(text, limit, "the group's value")

        def fold(so_far: str | None, new: str) -> str:
            if so_far is None or so_far.startswith(_BROKEN):
                return so_far or new
            try:
                return folded(so_far, new)
            except Exception as error:  # noqa: BLE001 - the user's reducer: told to who waits
                return _BROKEN + _told(error)

        return fold

    def _reading(self, value: Any) -> ResultModel:  # noqa: ANN401
        kind = type(value)
        if self._typed or kind in _NATIVE:
            return self._model
        if kind not in self._kinds:
            self._kinds[kind] = ResultModel(kind, codec=self._codec, name=self._name)
        return self._kinds[kind]


def _told(error: Exception) -> str:
    """What is recorded of an error; a foreign one's text may quote what members gave."""
    if isinstance(error, OffpathError):
        return f"the values of its members could not be folded: {error}"
    return f"append= raised {type(error).__name__} on the values of its members"


def checked_size(text: str, limit: int, what: str) -> str:
    """``text``, if it has no more than ``limit`` bytes. Raises ``TooLarge``."""
    # Four bytes are the most that a character can take: most results need no counting.
    if len(text) * 4 > limit and (size := len(text.encode())) > limit:
        msg = f"{what} has {size} bytes encoded; max_result_bytes is {limit}"
        raise TooLarge(msg)
    return text


def returned_types(function: Callable[..., Any], name: str) -> tuple[Any, Any]:
    """What a handler's own result is, and what its group's value is, by its annotation."""
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
