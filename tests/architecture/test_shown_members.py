"""The members that autocomplete shows of what users hold: those that a guide teaches.

The engine's side of each is one private attribute, reached by one function: ``core_of``,
``unsent``, ``shape_of``, and the notes that a context writes into.
"""

from __future__ import annotations

import re

import pytest

from offpath import App, Context, Handle, Job, Plan
from tests.architecture.page import ROOT

SHOWN = {
    "app": (
        App(),
        """accept backlog batch batch_task blocking bound by_name clock close configure_workers dead
        drain economy elsewhere enqueue enqueue_by_name groups inbox inbox_door jobs limits log
        message_backlog messages metrics migrate new_id next_time open outbox post publish queues
        relay resource router routers schedule schedules settings settlements signal store sweep
        sweeps task tasks webhooks worker workers""",
    ),
    "ctx": (
        Context,
        """append attempt blocking cancelled claim cool_down deadline deliveries dependents enqueue
        each_outcome each_result group_id headers id interruption lease_lost logger now on_abort
        outcomes parent post progress publish queue queue_name resource result results scheduled_for
        sleep sleep_until states step task wait_for""",
    ),
    "job": (Job, "id task"),
    "handle": (Handle, "cancel cancel_group created group id progress result status"),
    "plan": (Plan, "next"),
}
"""The names that ``dir()`` shows of each, but for those that begin with an underscore."""
ENGINES = {
    "ctx": ("_notes", "_run", "_host", "_log_fields"),
    "job": ("_unsent",),
    "plan": ("_shape",),
}
PAGES = [*sorted((ROOT / "docs" / "guides").glob("*.md")), ROOT / "docs" / "quickstart.md"]
GUIDES = "\n".join(page.read_text("utf-8") for page in (*PAGES, ROOT / "docs" / "concepts.md"))


@pytest.mark.parametrize("kind", SHOWN)
def test_it_shows_what_is_listed_here_and_nothing_else(kind: str) -> None:
    one, names = SHOWN[kind]
    assert [name for name in dir(one) if not name.startswith("_")] == sorted(names.split())


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, (_, names) in SHOWN.items() for name in names.split()]
)
def test_a_guide_names_each_member(kind: str, name: str) -> None:
    taught = rf"\b\w*{kind}\w*\.{name}\b|`\.?{name}[`(]"
    assert re.search(taught, GUIDES), f"no guide says what {kind}.{name} is"


@pytest.mark.parametrize(
    "kind", [kind for kind, (one, _) in SHOWN.items() if isinstance(one, type)]
)
def test_its_own_attributes_are_the_engines_side_alone(kind: str) -> None:
    one, _ = SHOWN[kind]
    slots = {
        name for each in getattr(one, "__mro__", ()) for name in vars(each).get("__slots__", ())
    }
    if kind in ENGINES:
        assert slots == set(ENGINES[kind])


def test_nothing_reaches_into_an_app_but_by_its_core() -> None:
    inside = re.compile(r"\bapp\._(?!core\b)[a-z]\w*")
    files = (ROOT / "src" / "offpath").rglob("*.py")
    found = {
        f"{file.relative_to(ROOT)}: {each}"
        for file in files
        for each in inside.findall(file.read_text("utf-8"))
    }
    assert found == set()
