"""The contract of a store as tests, for backends that others write.

A subclass names how an empty place is had, and pytest runs every test of the profiles that the
store declares; the others are skipped, each with what is not declared::

    class TestAcme(StoreConformance):
        async def new_url(self) -> str:
            return f"acme://localhost/{uuid4()}"

Where it also says how a call is cut off (``cut``), calls are cut at each thing that they do. Where
it gives connections of a caller's own (``transaction``, ``async_transaction``), they are joined.

The scheme of the URL finds the store, as in an app; ``make_store`` may make it in another way. The
tests bring an event loop and a clock of their own. They need pytest.
"""

from __future__ import annotations

from typing import Final

import pytest

from offpath.runtime.clock import ManualClock
from offpath.store import backends
from offpath.store.protocol import Store

# before they are imported: so a test that fails shows what it compared
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{part}"
        for part in (
            *("core_tests", "cut_tests", "flow_tests", "ledger_tests", "operating_tests"),
            *("profile_tests", "random_calls", "within_tests"),
        )
    )
)

from offpath.testing.conformance.core_tests import CoreTests  # noqa: E402 - as above
from offpath.testing.conformance.cut_tests import CutTests  # noqa: E402 - as above
from offpath.testing.conformance.flow_tests import FlowTests  # noqa: E402 - as above
from offpath.testing.conformance.ledger_tests import LedgerTests  # noqa: E402 - as above
from offpath.testing.conformance.operating_tests import OperatingTests  # noqa: E402 - as above
from offpath.testing.conformance.profile_tests import ProfileTests  # noqa: E402 - as above
from offpath.testing.conformance.random_calls import RandomTests  # noqa: E402 - as above
from offpath.testing.conformance.within_tests import WithinTests  # noqa: E402 - as above

CONTRACT: Final = 1
"""The version of the contract that these tests hold a store to. It grows when a store that passed
may have to change.
"""


class StoreConformance(
    CoreTests,
    ProfileTests,
    FlowTests,
    LedgerTests,
    OperatingTests,
    WithinTests,
    CutTests,
    RandomTests,
):
    """Every test of the contract, to be extended in a test module by a class ``Test…``."""

    async def new_url(self) -> str:
        """The URL of a place without any data, for one test."""
        raise NotImplementedError("say where an empty place is: async def new_url(self) -> str")

    def make_store(self, url: str, clock: ManualClock) -> Store:
        """A store on that place, not open yet, which lives by this clock. Every store on one URL
        has the same data, if the backend declares that it is shared.
        """
        return backends.make_store(url, clock=clock)


__all__ = ["CONTRACT", "StoreConformance"]
