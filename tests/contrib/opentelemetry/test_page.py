"""The files of the page under ``opentelemetry-instrument``, with Postgres restarted meanwhile."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import offpath
from tests.contrib.opentelemetry.receiver import Receiver
from tests.contrib.processes import Processes, posted, write_files
from tests.integration.polling import eventually
from tests.servers import free_port

if TYPE_CHECKING:
    from tests.servers import PostgresCluster

EACH = 10


@pytest.mark.timeout(180)
async def test_traces_of_web_and_worker_arrive_whatever_was_restarted(
    own_postgres: PostgresCluster, tmp_path: Path
) -> None:
    write_files("opentelemetry.md", tmp_path)
    url, port = own_postgres.url, free_port()
    with Receiver() as receiver:
        run = Processes(
            tmp_path,
            {
                "SHOP_URL": url,
                "OFFPATH_POLL_INTERVAL": "0.2",
                "OTEL_TRACES_EXPORTER": "otlp_proto_http",
                "OTEL_METRICS_EXPORTER": "none",
                "OTEL_LOGS_EXPORTER": "none",
                "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
                "OTEL_BSP_SCHEDULE_DELAY": "200",
                "no_proxy": "127.0.0.1",
            },
        )
        try:
            run.run("-m", "offpath", "migrate", "--url", url)
            instrument = str(_command("opentelemetry-instrument"))
            run.start(instrument, str(_command("uvicorn")), "service:service", "--port", str(port))
            run.start(instrument, str(_command("offpath")), "worker", "jobs:app")
            home = f"http://127.0.0.1:{port}/orders"
            await eventually(
                lambda: "startup complete" in run.output(), within=60, what="the service is up"
            )
            placed = [json.loads(await posted(f"{home}/1", 201))["job"] for _ in range(EACH)]
            own_postgres.restart("immediate")
            placed += [json.loads(await posted(f"{home}/2", 201))["job"] for _ in range(EACH)]
            async with offpath.App(url, auto_start=False) as app:

                async def done() -> bool:
                    return await app.jobs.count(state="succeeded") == await app.jobs.count()

                await eventually(done, within=60, what=f"all jobs end well:\n{run.output()}")

            def linked() -> bool:
                sent = receiver.by_message("enqueue send_receipt")
                ran = receiver.by_message("run send_receipt")
                return all(
                    one in sent
                    and one in ran
                    and sent[one].span_id in {link.span_id for link in ran[one].links}
                    for one in placed
                )

            await eventually(linked, within=60, what=f"spans of all jobs:\n{run.output()}")
        finally:
            run.destroy()


def _command(name: str) -> Path:
    """A command of this environment, which is a Python file."""
    return Path(sys.executable).parent / name
