"""The wing that an economy is: what it adds to what an operator sees and may do.

It is loaded when somebody looks: a process that only submits operations never does. The modules are
named by text, since they stand above the economy that adds this.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any, Final

from offpath.jobs.client.core import core_of
from offpath.runtime.wings import Wing


def _has_economy(app: Any) -> bool:  # noqa: ANN401 - a wing knows the app's type, its seat does not
    return bool(core_of(app).economies)


def _verbs() -> Iterable[Any]:
    verbs: Iterable[Any] = import_module("offpath.economy.operating.verbs").MONEY_VERBS
    return verbs


def _pages() -> Any:  # noqa: ANN401 - as above
    return import_module("offpath.economy.console.readings").PAGES


ECONOMY: Final = Wing(name="economy", holds=_has_economy, verbs=_verbs, pages=_pages)
"""The wing of every economy of this process."""
