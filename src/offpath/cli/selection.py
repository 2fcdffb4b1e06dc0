"""The rows that a command changes: chosen by id, by a filter, or all of a kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import click

from offpath.cli.frame import F, Filters, Option, confirm, option_group, to_be_asked
from offpath.errors import InvalidArgument

most_option = click.option(
    "--limit", type=click.IntRange(min=1), help="The most rows to change, the oldest first."
)


class Question(NamedTuple):
    """A question about rows that a filter chose, which is asked when they were counted."""

    verb: str
    noun: str
    """The name of one row, as `dead job`."""
    everything: bool

    def text(self, rows: int | None = None, *, more: bool = False, limit: int | None = None) -> str:
        """The question, with the number of rows where it is known."""
        one = rows == 1 and not more
        if rows is None:
            every = f"all {self.noun}s" if self.everything else f"every {self.noun} that matches"
            return f"{self.verb} {every}?"
        noun = self.noun if one else f"{self.noun}s"
        which = noun if self.everything else f"{noun} that {'matches' if one else 'match'}"
        number = f"more than {rows:,}" if more else f"{rows:,}"
        if limit is not None and limit < rows:
            return f"{self.verb} the oldest {limit:,} of {number} {which}?"
        return f"{self.verb} {'all ' if self.everything and not one else ''}{number} {which}?"


class Selection(NamedTuple):
    """The rows that were chosen: by ids, by filters, or everything."""

    ids: tuple[str, ...] = ()
    where: Filters = {}  # noqa: RUF012 - never changed
    everything: bool = False
    question: Question | None = None
    """The question that is to be asked about them."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A kind of rows, and the options that choose among them."""

    noun: str
    """The name of one in a question, as in `Redrive every dead job that matches?`."""
    missing: str
    """The advice when nothing chooses."""
    ids: Option
    """The argument that takes ids."""
    filters: Sequence[Option]
    together: str | None = None
    """The name of the ids where they and filters are refused together, before the app does."""
    refine: Callable[[Filters], Filters] = dict
    """A last step from the options that were given to the app's filters."""

    def chosen(
        self, verb: str, *more: Option, all_of: str | None = None, lost: bool = False
    ) -> Callable[[F], F]:
        """The options that choose, as the argument ``which``; a choice of many is confirmed.

        ``all_of`` is the help of --all; what is ``lost`` is confirmed by id, too.
        """
        everything = click.option("--all", "everything", is_flag=True, help=all_of)
        choosing = (*self.filters, *more, *((everything,) if all_of else ()))
        return option_group("which", partial(self._selection, verb, lost), self.ids, *choosing)

    def _selection(
        self,
        verb: str,
        lost: bool,
        ids: tuple[str, ...],
        *,
        everything: bool = False,
        **given: Any,  # noqa: ANN401 - any filter
    ) -> Selection:
        where = self.refine({name: one for name, one in given.items() if one})
        which = Selection(ids, where, everything)
        self._check(which)
        if ids and not everything:
            if lost:
                these = f"this {self.noun}" if len(ids) == 1 else f"these {len(ids):,} {self.noun}s"
                confirm(f"{verb} {these}?")
            return which
        question = Question(verb, self.noun, everything)
        return which._replace(question=question) if to_be_asked(question.text()) else which

    def _check(self, which: Selection) -> None:
        if self.together and which.ids and (which.everything or which.where):
            raise InvalidArgument(f"give {self.together} or a filter, not both")
        if self.together and which.everything and which.where:
            raise InvalidArgument("give --all or a filter, not both")
        if not any(which):
            raise InvalidArgument(self.missing)
