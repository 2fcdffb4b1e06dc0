"""``offpath stubs``: a module by which other services call an app's tasks, with their types."""

from __future__ import annotations

import difflib
import keyword
import re
from collections.abc import Iterator
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from offpath.cli.apps import load_app
from offpath.cli.frame import plain_command
from offpath.cli.stub_types import StubTypes
from offpath.cli.values import DONE, FAILED, Said, Shown
from offpath.errors import InvalidArgument

if TYPE_CHECKING:
    from offpath.app import App
    from offpath.jobs.define.task import Task
    from offpath.model.limit import LimitPart, LimitSpec

_HEAD: Final = '''\
"""The tasks of {target}, for services that enqueue them.

Written by `offpath stubs {target}`; `offpath stubs {target} --check FILE` tells when it is stale.
"""

# fmt: off
# ruff: noqa
from __future__ import annotations

{imports}
{classes}

class Tasks:
    """``Tasks(app).NAME.enqueue(...)``: a job that the service of {target} runs."""

    def __init__(self, app: offpath.App) -> None:
{fields}


{functions}
'''
_DEFAULT: Final = "_DEFAULT"
_DEFAULT_LINE: Final = "_DEFAULT: typing.Any = ...  # not stored: the service's own default counts"


@click.command()
@click.argument("target", metavar="MODULE:APP")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write it into this file.",
)
@click.option(
    "--check",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write nothing; exit with 1 if this file is not what would be written.",
)
@plain_command
def stubs(target: str, *, output: Path | None, check: Path | None) -> Shown | Said:
    r"""Print a module by which other services call the tasks of an app.

    It has their names, arguments, results and static options, and dataclasses, structs and enums of
    the service, so type checkers look at calls, and nobody imports the service's code.

    \b
    offpath stubs shop.jobs:app --output billing/shop_tasks.py
    offpath stubs shop.jobs:app --check billing/shop_tasks.py     # in CI
    """
    if output is not None and check is not None:
        raise InvalidArgument("give --output or --check, not both")
    text = stub_of(load_app(target), target)
    if check is not None:
        return _checked(check, text, target)
    if output is not None:
        output.write_text(text, encoding="utf-8")
        return Said({"file": str(output), "written": True}, f"wrote {output}")
    return Shown({"module": text}, text.splitlines())


def _checked(file: Path, text: str, target: str) -> Shown:
    there = file.read_text(encoding="utf-8") if file.exists() else ""
    lines = list(
        difflib.unified_diff(
            there.splitlines(), text.splitlines(), str(file), target, n=1, lineterm=""
        )
    )
    fresh = there == text
    remedy = f"is stale: offpath stubs {target} --output {file}"
    said = f"{file} {'is up to date' if fresh else remedy}"
    document = {"file": str(file), "fresh": fresh}
    return Shown(document, [said, *lines], exit=DONE if fresh else FAILED)


def stub_of(app: App, target: str) -> str:
    """The module's source. Raises ``InvalidArgument`` for a type that cannot be named elsewhere."""
    types = StubTypes()
    fields: list[str] = []
    functions: list[str] = []
    for place, task in _placed(app):
        functions += ["", "", *_function(place, task, types)]
        fields += [f"        {line}" for line in _field(place, task)]
    if any(_DEFAULT in line for line in functions):
        functions = [_DEFAULT_LINE, *functions]
        types.imports.add("typing")
    imports = sorted({*types.imports, "offpath"}, key=lambda name: (name == "offpath", name))
    classes = "".join(f"\n\n{text}\n" for text in types.classes.values())
    made = _HEAD.format(
        target=target,
        imports="\n".join(f"import {name}" for name in imports),
        classes=classes,
        fields="\n".join(fields) or "        pass",
        functions="\n".join(functions).strip("\n"),
    )
    return made.rstrip("\n") + "\n"


def _placed(app: App) -> Iterator[tuple[str, Task[..., Any, Any]]]:
    """Each task with a name that Python can have, in the order of the tasks' names."""
    taken: dict[str, str] = {}
    for name, task in sorted(app.tasks.items()):
        place = re.sub(r"\W", "_", name)
        if place[0].isdigit() or keyword.iskeyword(place):
            place = f"_{place}"
        if place in taken:
            raise InvalidArgument(
                f"the tasks {taken[place]!r} and {name!r} would both be {place!r}: rename one"
            )
        taken[place] = name
        yield place, task


def _field(place: str, task: Task[..., Any, Any]) -> Iterator[str]:
    computed = [name for name in _COMPUTED if getattr(task.computes, name)]
    if computed:
        yield f"# computed by the service, not here: {', '.join(computed)}"
    options = "".join(f", {name}={value}" for name, value in _options(task))
    yield f"self.{place} = app.elsewhere(_{place}, name={task.name!r}{options})"


_COMPUTED: Final = ("unique", "limit", "fair_key", "options")


def _options(task: Task[..., Any, Any]) -> Iterator[tuple[str, str]]:
    """The options that a job carries from its birth, as source; its worker knows the rest."""
    plain = task.template
    if plain.queue != "default":
        yield "queue", repr(plain.queue)
    if plain.priority:
        yield "priority", repr(plain.priority)
    if plain.tags:
        yield "tags", repr(list(plain.tags))
    if plain.deadline_in is not None:
        yield "deadline", repr(plain.deadline_in)
    if plain.group_policy != "settle_all":
        yield "group_policy", repr(plain.group_policy.value)
    if plain.fair_key is not None:
        yield "fair_key", repr(plain.fair_key)
    if (claim := task.defaults.unique) and not task.computes.unique:
        states = [state.value for state in claim.states]
        yield (
            "unique",
            (
                f"offpath.Unique(key={claim.key!r}, states={states!r}, period={claim.period!r}, "
                f"policy={claim.policy.value!r})"
            ),
        )
    if plain.limit is not None:
        yield "limit", _limit(plain.limit)


def _limit(spec: LimitSpec) -> str:
    if spec.parts:
        return f"[{', '.join(_one_limit(part) for part in spec.parts)}]"
    return _one_limit(spec)


def _one_limit(one: LimitSpec | LimitPart) -> str:
    rate = one.rate
    parts = [repr(one.key)]
    if one.max_running is not None:
        parts.append(f"max_running={one.max_running}")
    if rate is not None:
        parts.append(
            f"rate=offpath.Rate({rate.count}, per={rate.per!r}, algorithm={rate.algorithm.value!r})"
        )
    if (cost := getattr(one, "cost", 1)) != 1:
        parts.append(f"cost={cost}")
    return f"offpath.Limit({', '.join(parts)})"


def _function(place: str, task: Task[..., Any, Any], types: StubTypes) -> Iterator[str]:
    own, group = types.text(task.results.type), types.text(task.group_values.type)
    result = own if own == group else f"offpath.Plan[{own}, {group}]"
    yield f"def _{place}({', '.join(_parameters(task, types))}) -> {result}:"
    told = (task.__doc__ or "").strip().partition("\n")[0]
    if told:
        yield f'    """{_safe(told)}"""'
    yield "    raise NotImplementedError"


def _safe(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _parameters(task: Task[..., Any, Any], types: StubTypes) -> Iterator[str]:
    signature = task.inputs.signature.parameters
    starred = before = None
    for one in task.inputs.parameters:
        if before is Parameter.POSITIONAL_ONLY is not one.kind:
            yield "/"
        if one.kind is Parameter.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        starred = starred or one.kind is Parameter.VAR_POSITIONAL
        before = one.kind
        yield _parameter(one.name, one.kind, one.type, signature[one.name].default, types)
    if before is Parameter.POSITIONAL_ONLY:
        yield "/"


def _parameter(name: str, kind: object, type_: Any, default: object, types: StubTypes) -> str:  # noqa: ANN401 - an annotation
    if kind is Parameter.VAR_POSITIONAL:
        return f"*{name}: {types.text(type_.__args__[0])}"
    if kind is Parameter.VAR_KEYWORD:
        values = getattr(type_, "__args__", (str, Any))[1]
        return f"**{name}: {types.text(values)}"
    text = f"{name}: {types.text(type_)}"
    if default is Parameter.empty:
        return text
    if isinstance(default, bool | int | float | str | type(None)):
        return f"{text} = {default!r}"
    return f"{text} = {_DEFAULT}"
