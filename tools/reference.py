"""The reference pages, written from the docstrings: ``python -m tools.reference``.

One page for each public module, with every name of its ``__all__``: signature, meaning, public
members. The docstrings are read from the sources: a comment below a value is one there.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import griffe

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference"
MODULES = {
    "offpath": "Apps, tasks, jobs, workflows and limits.",
    "offpath.batch_tasks": "What a task that serves many jobs in one call is given and returns.",
    "offpath.economy": "The credits economy: operations, payouts, subscriptions, proof.",
    "offpath.errors": "Every error, and what each carries.",
    "offpath.events": "Outbox, inbox, webhooks, dispatchers and routers.",
    "offpath.extensions": "Code around handlers, steps, deliveries and commits.",
    "offpath.records": "The records that are read from a store.",
    "offpath.retries": "Parts of retry policies.",
    "offpath.settlements": "Settlement runs.",
    "offpath.sweeps": "Sweeps over due rows.",
    "offpath.testing": "Clocks, fakes and assertions for your tests.",
    "offpath.testing.conformance": "Tests of the store's contract, for backends of your own.",
    "offpath.workers": "Workers, their hooks, and what health is judged by.",
}
"""The public modules, each with its line in the list of pages."""
_WIDTH = 88
"""Characters of a signature in one line."""
_STARS: dict[griffe.ParameterKind | None, str] = {
    griffe.ParameterKind.var_positional: "*",
    griffe.ParameterKind.var_keyword: "**",
}
_ROLE = re.compile(r":(?:class|meth|func|mod|attr|data|exc):`~?(?P<name>[^`]+)`")
_CODE = re.compile(r"``(?P<code>[^`]+)``")


def pages() -> dict[Path, str]:
    """The text of every page, by its path."""
    package = griffe.load("offpath", search_paths=[ROOT / "src"], resolve_aliases=True)
    written = {FOLDER / f"{name}.md": page(module_of(package, name)) for name in MODULES}
    return {FOLDER / "README.md": index(), **written}


def module_of(package: griffe.Object | griffe.Alias, name: str) -> griffe.Object | griffe.Alias:
    """A module of the package by its dotted name."""
    inner = name.partition(".")[2]
    return package[inner] if inner else package


def index() -> str:
    """The list of pages."""
    rows = "\n".join(f"| [`{name}`]({name}.md) | {about} |" for name, about in MODULES.items())
    return (
        "# Reference\n\nEvery public name, from its docstring. `python -m tools.reference` writes "
        "these pages, and a test compares them.\n\n| module | holds |\n|---|---|\n" + rows + "\n"
    )


def page(module: griffe.Object | griffe.Alias) -> str:
    """The page of one module."""
    names = sorted((name for name in exported(module) if not name.startswith("_")), key=str.lower)
    parts = [f"# {module.path}\n\n{prose(module)}".rstrip()]
    parts += [entry(name, module[name]) for name in names]
    return "\n\n".join(parts) + "\n"


def exported(module: griffe.Object | griffe.Alias) -> list[str]:
    """The names of ``__all__``."""
    return [str(name) for name in module.exports or ()]


def entry(name: str, found: griffe.Object | griffe.Alias) -> str:
    """One name: its heading, signature, meaning, and members where it is a class."""
    target = found.final_target if isinstance(found, griffe.Alias) else found
    parts = [f"## {name}", *(made(name, found) or (block(shown(name, target)), prose(target)))]
    if isinstance(target, griffe.Class):
        parts += [part for member in members(target) for part in member_parts(member)]
    return "\n\n".join(part for part in parts if part)


def made(name: str, found: griffe.Object | griffe.Alias) -> tuple[str, ...]:
    """The signature and meaning of a function that another one made: the sources show neither."""
    target = found.final_target if isinstance(found, griffe.Alias) else found
    if target.docstring is not None or target.parent is None:
        return ()
    function = getattr(importlib.import_module(target.parent.path), target.name, None)
    if not inspect.isfunction(function):
        return ()
    signature = str(inspect.signature(function)).replace("'", "")
    ahead = "async " if inspect.iscoroutinefunction(function) else ""
    given, _, end = signature[1:].rpartition(")")
    # the types of such functions hold no comma
    return block(folded(f"{ahead}{name}", given.split(", "), end)), markdown(
        inspect.getdoc(function) or ""
    )


def members(owner: griffe.Class) -> list[griffe.Object]:
    """The public members of a class, its own and inherited ones, in alphabetical order."""
    # a base that only type checkers see gives nothing to its heirs
    there = getattr(importlib.import_module(owner.module.path), owner.name, None)
    found = {
        name: member.final_target if isinstance(member, griffe.Alias) else member
        for name, member in owner.all_members.items()
        if not name.startswith("_") and (name in owner.members or hasattr(there, name))
    }
    return [found[name] for name in sorted(found) if found[name].docstring]


def member_parts(member: griffe.Object) -> list[str]:
    """The parts of one member: heading, signature, meaning."""
    return [f"### {member.name}", block(shown(member.name, member)), prose(member)]


def shown(name: str, found: griffe.Object) -> str:
    """How a name is written: a call with its parameters, or a value with its type."""
    if isinstance(found, griffe.Function):
        ahead = "async " if "async" in found.labels else ""
        given = f" -> {found.returns}" if found.returns is not None else ""
        return folded(f"{ahead}{name}", parameters(found), given)
    if isinstance(found, griffe.Class):
        return folded(f"class {name}", constructor(found), "")
    if isinstance(found, griffe.Attribute) and found.annotation is not None:
        return f"{name}: {found.annotation}"
    return name


def constructor(owner: griffe.Class) -> list[str]:
    """The parameters of a class; none where it has no signature worth a line."""
    made = owner.all_members.get("__init__")
    target = made.final_target if isinstance(made, griffe.Alias) else made
    return parameters(target) if isinstance(target, griffe.Function) else []


def parameters(function: griffe.Function) -> list[str]:
    """The parameters of a function as they are written, without the object itself."""
    written, starred = list[str](), False
    for each in function.parameters:
        if each.name in {"self", "cls"}:
            continue
        if each.kind is griffe.ParameterKind.keyword_only and not starred:
            written, starred = [*written, "*"], True
        starred = starred or each.kind is griffe.ParameterKind.var_positional
        written.append(parameter(each))
    return written


def parameter(each: griffe.Parameter) -> str:
    """One parameter, with its type and its default."""
    stars = _STARS.get(each.kind, "")
    kind = "" if each.annotation is None else f": {each.annotation}"
    default = "" if stars or each.default is None else f" = {each.default}"
    return f"{stars}{each.name}{kind}{default}"


def folded(name: str, given: list[str], end: str) -> str:
    """A signature in one line, or a parameter in each where that is too long."""
    line = f"{name}({', '.join(given)}){end}"
    if len(line) <= _WIDTH or not given:
        return line if given or not name.startswith("class ") else name
    return f"{name}(\n" + "".join(f"    {each},\n" for each in given) + f"){end}"


def block(text: str) -> str:
    """A signature as a block: shown only, since it is not a program."""
    return f"```py\n{text}\n```"


def prose(found: griffe.Object | griffe.Alias) -> str:
    """The docstring as Markdown."""
    return "" if found.docstring is None else markdown(found.docstring.value)


def markdown(docstring: str) -> str:
    """A docstring with its roles and code as Markdown has them."""
    text = _ROLE.sub(lambda match: f"`{match['name']}`", docstring)
    return "\n\n".join(paragraphs(_CODE.sub(lambda match: f"`{match['code']}`", text)))


def paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a docstring; indented ones are code, as where a line ends in ``::``."""
    for each in re.split(r"\n\s*\n", text.strip()):
        if all(line.startswith("    ") for line in each.splitlines()):
            yield block(re.sub("^    ", "", each, flags=re.MULTILINE))
        else:
            yield re.sub(r"::$", ":", each.strip())


def main() -> None:
    """Write the pages; those of modules that are public no more are removed."""
    FOLDER.mkdir(exist_ok=True)
    written = pages()
    for old in set(FOLDER.glob("*.md")) - set(written):
        old.unlink()
    for path, text in written.items():
        path.write_text(text, "utf-8")
    sys.stdout.write(f"{len(written)} pages in {FOLDER.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
