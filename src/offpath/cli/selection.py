"""The rows that a command changes: chosen by id, by a filter, or all of a kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import click

from offpath.cli.frame import F, Filters, Option, confirm, option_group
from offpath.errors import InvalidArgument

most_option = click.option(
    "--limit", type=click.IntRange(min=1), help="The most rows to change, the oldest first."
)


class Selection(NamedTuple):
    """The rows that were chosen: by ids, by filters, or everything."""

    ids: tuple[str, ...] = ()
    where: Filters = {}  # noqa: RUF012 - never changed
    everything: bool = False


@dataclass(frozen=True, slots=True)
class Rows:
    """A kind of rows, and the options that choose among them."""

    many: str
    """Their name in a question, as in `Redrive all dead jobs?`."""
    every: str
    """The same for those that a filter matches, as in `Redrive every dead job that matches?`."""
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
        if lost or not ids:
            what = f"all {self.many}" if everything else f"every {self.every} that matches"
            confirm(f"{verb} {f'these {self.many}' if ids and not everything else what}?")
        return which

    def _check(self, which: Selection) -> None:
        if self.together and which.ids and (which.everything or which.where):
            raise InvalidArgument(f"give {self.together} or a filter, not both")
        if self.together and which.everything and which.where:
            raise InvalidArgument("give --all or a filter, not both")
        if not any(which):
            raise InvalidArgument(self.missing)
