"""The share of a campaign that a run does: a little by default, all of it where it is asked for.

``OFFPATH_TEST_CAMPAIGN=1 pytest tests/integration`` runs the full counts and the default lease.
"""

from __future__ import annotations

import os

CAMPAIGN = os.environ.get("OFFPATH_TEST_CAMPAIGN", "") not in {"", "0"}


def scaled(usual: int, campaign: int) -> int:
    """``usual``, or ``campaign`` in a campaign."""
    return campaign if CAMPAIGN else usual
