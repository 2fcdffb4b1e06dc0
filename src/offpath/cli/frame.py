"""The frame of every command: its shared options, the app that it works with, the value it returns.

A command is a function that gets an open app and its options, and returns a value. The frame opens
the app that the options name, awaits the command, prints the value and ends with its exit code.
Errors are the program's (:mod:`offpath.cli.program`).
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from datetime import datetime
from typing import Any, TypeVar

import click

from offpath.cli import output
from offpath.cli.apps import known_app, store_app
from offpath.cli.logs import configure
from offpath.cli.values import DONE, Value
from offpath.errors import InvalidArgument

F = TypeVar("F", bound=Callable[..., Any])
Option = Callable[[Any], Any]
"""A decorator of click's that adds an option or an argument."""
Opener = Callable[..., AbstractAsyncContextManager[Any]]
"""A context that opens what a command works with, found by options of the opener's names."""

_JSON, _YES = "offpath.json", "offpath.yes"


# -- options ---------------------------------------------------------------------------------------


def _flag(name: str, key: str, text: str) -> Callable[[F], F]:
    """A flag that is kept in click's context: commands do not carry it along."""

    def keep(context: click.Context, _option: click.Parameter, given: bool) -> None:
        context.meta[key] = given

    # Eager: bad input that another option refuses is already told as JSON.
    return click.option(
        name, is_flag=True, is_eager=True, expose_value=False, callback=keep, help=text
    )


def _asked(key: str) -> bool:
    """A flag of the command that runs."""
    context = click.get_current_context(silent=True)
    return bool(context is not None and context.meta.get(key))


def wants_json() -> bool:
    """True when the command that runs is to print JSON."""
    return _asked(_JSON)


url_option = click.option(
    "--url",
    metavar="URL",
    help="sqlite:///file.db or postgresql://…  [env: OFFPATH_URL, DATABASE_URL]",
)
json_option = _flag("--json", _JSON, "Print JSON, for programs.")
yes_option = _flag("--yes", _YES, "Act without asking for confirmation.")
limit_option = click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="The most rows to list.",
)


def after_option(metavar: str = "ID", **settings: Any) -> Callable[[F], F]:  # noqa: ANN401 - click's own
    """The option that asks for the next page."""
    what = metavar.lower().replace(":", " and ")
    text = f"List what follows this {what}, the last of the page before."
    return click.option("--after", metavar=metavar, help=text, **settings)


def app_option(text: str, to: str = "target") -> Callable[[F], F]:
    """The option that names an app; ``to`` is the name of its argument."""
    return click.option("--app", to, metavar="MODULE:APP", help=f"{text}  [env: OFFPATH_APP]")


place_options = (app_option("The app whose store is meant.", "of_app"), url_option)
"""The options that name a store."""


def options(*several: Option) -> Callable[[F], F]:
    """Several options as one decorator; help lists them in this order."""

    def add(function: F) -> F:
        for option in reversed(several):
            function = option(function)
        return function

    return add


def option_group(name: str, make: Callable[..., Any], *several: Option) -> Callable[[F], F]:
    """Options that are one value: the command gets ``make(**options)`` as its argument ``name``.

    The value is made before the database is opened, so bad input is refused first.
    """

    def blank() -> None:
        """Nothing: click keeps a command's options on its function."""

    own: list[click.Parameter] = getattr(options(*several)(blank), "__click_params__", [])
    names = [one.name for one in own if one.expose_value]

    def add(function: F) -> F:
        @functools.wraps(function)
        def run(**given: Any) -> Any:  # noqa: ANN401 - whatever click passes
            values = {each: given.pop(each) for each in names}
            return function(**given, **{name: make(**values)})

        run.__click_params__ = [*getattr(function, "__click_params__", ()), *own]  # type: ignore[attr-defined]
        return run  # type: ignore[return-value]

    return add


def only(name: str, what: str, to: str | None = None, **settings: Any) -> Option:  # noqa: ANN401 - click's own
    """A filter that may be repeated; ``to`` is the app's name for it."""
    names = (name, to) if to else (name,)
    return click.option(*names, multiple=True, help=f"Only {what}; may be repeated.", **settings)


Filters = dict[str, Any]
"""Filters of the app, by the names that it has for them."""


def filters(*several: Option) -> Callable[[F], F]:
    """Filter options as the argument ``where``, without those that were not given."""
    return option_group("where", _given, *several)


def _given(**where: Any) -> Filters:  # noqa: ANN401 - any filter
    return {name: value for name, value in where.items() if value}


def warnings_logged(function: F) -> F:
    """Show warnings of the library while the command runs: it carries out work of an app."""

    @functools.wraps(function)
    def run(**given: Any) -> Any:  # noqa: ANN401 - whatever click passes
        configure("warning", "text")
        return function(**given)

    return run  # type: ignore[return-value]


def tell(text: str) -> None:
    """Tell people something while the command still runs."""
    if not wants_json():
        output.note(text)


def to_be_asked(question: str) -> bool:
    """True if a person is to answer, False if --yes does; a program must say --yes."""
    if _asked(_YES):
        return False
    if wants_json() or not sys.stdin.isatty():
        raise InvalidArgument(f"{question} Repeat it with --yes")
    return True


def confirm(question: str) -> None:
    """Ask before something is lost."""
    if to_be_asked(question):
        ask(question)


@contextmanager
def interruptible() -> Iterator[None]:
    """A question inside an event loop: Ctrl-C ends it, which the loop would wait with."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def ask(question: str) -> None:
    """Go on if the answer is yes. Raises ``click.Abort``."""
    try:
        sure = click.confirm(output.clean(question))
    except click.Abort:
        click.echo(err=True)  # what is said next does not go on in the question's line
        raise
    if not sure:
        raise click.Abort


def confirmed(question: str) -> Callable[[F], F]:
    """The option --yes, and the question without it: names of options in it are filled in."""

    def add(function: F) -> F:
        @functools.wraps(function)
        def run(**given: Any) -> Any:  # noqa: ANN401 - whatever click passes
            times = {k: output.when(v) for k, v in given.items() if isinstance(v, datetime)}
            confirm(question.format(**{**given, **times}))
            return function(**given)

        return yes_option(run)  # type: ignore[return-value]

    return add


# -- commands --------------------------------------------------------------------------------------


def framed(
    opener: Opener | None = None, *shared: Option, json: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., int]]:
    """The decorator below a command's own options.

    It adds ``shared`` options and --json. With an ``opener`` the command is async, and gets what
    that opens as its first argument. Options that the opener takes reach the command only if it
    names them, too.
    """
    takes = set() if opener is None else set(inspect.signature(opener).parameters)

    def frame(function: Callable[..., Any]) -> Callable[..., int]:
        names = set(inspect.signature(function).parameters)

        @functools.wraps(function)
        def run(**given: Any) -> int:  # noqa: ANN401 - whatever click passes
            if opener is None:
                return _ended(function(**given))
            kept = {name: v for name, v in given.items() if name in names or name not in takes}
            place = opener(**{name: given[name] for name in takes & given.keys()})
            return _ended(asyncio.run(_work(place, function, kept)))

        # Click keeps lines after a backspace as they are; a raw docstring has no such character.
        run.__doc__ = (function.__doc__ or "").replace("\\b", "\b")
        return options(*shared, *([json_option] if json else []))(run)

    return frame


async def _work(
    place: AbstractAsyncContextManager[Any], function: Callable[..., Any], given: dict[str, Any]
) -> Any:  # noqa: ANN401 - a value, or an exit code
    async with place as opened:
        return await function(opened, **given)


def _ended(value: Value | int | None) -> int:
    """The exit code, after the value was printed."""
    if value is None or isinstance(value, int):
        return value or DONE
    output.show(value, as_json=wants_json())
    return value.exit


plain_command = framed()
"""A command that opens no app."""
store_command = framed(store_app, *place_options)
"""A command on a store: its first argument is an app that has no tasks."""


def app_command(text: str) -> Callable[[Callable[..., Any]], Callable[..., int]]:
    """A command with the app that --app or the settings name, or on a store alone."""
    return framed(known_app, app_option(text), url_option)
