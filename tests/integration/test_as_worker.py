"""A part of the conformance suite, as the worker's role and among shadows.

The whole of it takes minutes: ``OFFPATH_TEST_ROLE=worker python -m pytest tests/conformance``.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conformance.roles import VARIABLE
from tests.servers import VARIABLE as SERVER

PARTS = ("enqueue", "unique", "gates", "ledger_posting", "messages_writing", "routers")


@pytest.mark.timeout(300)
def test_the_worker_s_role_keeps_the_contract_of_the_store(postgres_server: str) -> None:
    files = [f"tests/conformance/test_{part}.py" for part in PARTS]
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-k", "postgres", *files],
        env={**os.environ, VARIABLE: "worker", SERVER: postgres_server},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout
