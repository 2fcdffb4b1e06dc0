"""Hints for calls that do not fit a function: what it takes, and the name that may be meant."""

from __future__ import annotations

import difflib
import inspect
import re
from typing import Final

from offpath.model.other_words import option_hint

_STRANGE: Final = re.compile(
    r"(?:Unexpected keyword argument|got an unexpected keyword argument"
    r"|Object contains unknown field) ['`](?P<name>.+)['`]"
)
_LACKING: Final = re.compile(
    r"(?:Missing required argument|missing a required argument:|Object missing required field) .+"
)
_TOO_MANY: Final = re.compile(r"Extra positional arguments provided|too many positional arguments")
_PLACE: Final = " - at `"
_LONGEST: Final = 200
"""Characters of a signature that are told."""


class _Default:
    """A default, which is not told: it may be long."""

    def __repr__(self) -> str:
        return "…"


def call_hint(text: str, signature: inspect.Signature, given: int = 0) -> str:
    """The hint for a call that was refused with this text, "" where it says nothing of one.

    The texts are msgspec's and inspect's. ``given`` is the number of positional arguments.
    """
    if _PLACE in text:  # of a value within an argument
        return ""
    if strange := _STRANGE.fullmatch(text):
        name = strange["name"]
        return option_hint(name) or f"{_like(name, signature)}; it takes {_shown(signature)}"
    if _TOO_MANY.fullmatch(text):
        return f": {given} are given; it takes {_shown(signature)}"
    return f"; it takes {_shown(signature)}" if _LACKING.fullmatch(text) else ""


def _like(name: str, signature: inspect.Signature) -> str:
    near = difflib.get_close_matches(name, signature.parameters, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _shown(signature: inspect.Signature) -> str:
    """The parameters by name, as Python writes them."""
    bare = [
        one.replace(
            annotation=one.empty, default=one.empty if one.default is one.empty else _Default()
        )
        for one in signature.parameters.values()
    ]
    text = str(signature.replace(parameters=bare, return_annotation=signature.empty))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…)"
