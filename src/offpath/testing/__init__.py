"""For the tests of code that uses offpath.

``swap_to_memory`` lets an app work in memory for a while, ``drain`` runs what is due,
``assert_enqueued`` and ``refute_enqueued`` look at what was enqueued, ``ManualClock`` is the time,
moved by hand,
``perform`` runs one attempt of one job and answers what its handler does,
``pass_time`` moves it and runs what falls due on the way, and
``FlakyStore`` fails on demand; ``swap_resource`` puts another value in the place of a resource.
``FakeCredits`` and ``FakeRecords`` are the two ports of a
settlement run. ``signed_webhook`` makes the headers of a genuine webhook.
The ports of an economy, in memory, are in ``offpath.economy.testing``.
The pytest plugin (``pytest_offpath``) offers the first of them as fixtures.
"""

from __future__ import annotations

from offpath.runtime.clock import ManualClock
from offpath.testing.assertions import assert_enqueued, enqueued, refute_enqueued
from offpath.testing.cases import MemoryTests
from offpath.testing.due_work import NeverIdle, drain, drain_blocking
from offpath.testing.faults import FlakyStore
from offpath.testing.memory_swap import MemorySwap, swap_to_memory
from offpath.testing.own_schema import SchemaSwap
from offpath.testing.resources import swap_resource
from offpath.testing.settlement_fakes import FakeCredits, FakeRecords
from offpath.testing.signed_webhooks import signed_webhook
from offpath.testing.single_attempt import perform
from offpath.testing.time_passage import pass_time

__all__ = [
    "FakeCredits",
    "FakeRecords",
    "FlakyStore",
    "ManualClock",
    "MemorySwap",
    "MemoryTests",
    "NeverIdle",
    "SchemaSwap",
    "assert_enqueued",
    "drain",
    "drain_blocking",
    "enqueued",
    "pass_time",
    "perform",
    "refute_enqueued",
    "signed_webhook",
    "swap_resource",
    "swap_to_memory",
]

_MOVED = frozenset(
    {"FakeDirectory", "FakeFeed", "FakeProvider", "Killed", "MemoryAnchor", "Mode", "TestSigner"}
)
"""Names of the economy, which this module had before."""


def __getattr__(name: str) -> object:
    if name in _MOVED:
        raise ImportError(f"{name} is in offpath.economy.testing: import it from there")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
