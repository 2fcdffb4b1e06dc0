"""Other libraries beside this one: what the command says, and that its own adapter works."""

from __future__ import annotations

import subprocess
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from benchmarks.__main__ import main
from benchmarks.peers import environment
from benchmarks.peers.catalogue import PEERS, Peer
from benchmarks.peers.command import named
from benchmarks.peers.environment import ADAPTERS, Environment
from benchmarks.peers.measure import Figures, Sizes, measured
from benchmarks.peers.page import page, with_kept

_FEW = Sizes(jobs=40, singles=3, probes=5, slots=4, runs=1)


def test_our_own_comes_first_and_each_name_once() -> None:
    assert [peer.name for peer in named("pgqueuer, offpath,pgqueuer")] == [
        "offpath",
        "offpath-sqlite",
        "pgqueuer",
    ]


def test_a_name_that_nobody_has_is_refused_before_anything_is_installed() -> None:
    with pytest.raises(click.BadParameter, match="'selery' is none of offpath, "):
        named("selery")
    answer = CliRunner().invoke(main, ["peers", "--peers", "selery"])
    assert answer.exit_code == 2
    assert "'selery' is none of" in answer.output


@pytest.mark.parametrize("peer", PEERS.values(), ids=lambda peer: peer.name)
def test_each_peer_has_an_adapter_pinned_packages_and_a_question_for_its_store(
    peer: Peer,
) -> None:
    text = (ADAPTERS / peer.adapter).read_text(encoding="utf-8")
    assert peer.node == peer.adapter.endswith(".js")
    assert all("==" in each or "@" in each for each in peer.packages)
    assert peer.left
    assert (peer.store == "redis") == bool(peer.redis)
    if peer.node:
        assert f'"{peer.kind}":' in text or f"{peer.kind} }}" in text


def test_a_whole_run_of_our_own_adapter_measures_everything(tmp_path: Path) -> None:
    figures = measured(Environment(PEERS["offpath-sqlite"], tmp_path), "", _FEW, load=0.5)
    rates = figures.enqueue_one, figures.enqueue_bulk, figures.process
    assert min(*rates, figures.caller_cpu, figures.pickup_p50) > 0
    assert figures.pickup_p50 <= figures.pickup_p99
    assert figures.server_cpu is None


def test_an_adapter_that_fails_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    broken = Environment(PEERS["offpath-sqlite"], tmp_path)
    with pytest.raises(RuntimeError, match=r"(?s)offpath-sqlite setup failed:.*nowhere"):
        broken.run(f"sqlite:///{tmp_path}/nowhere/x.db", tmp_path / "seen", 1, "setup")


def test_nothing_of_a_worker_is_left_after_it(tmp_path: Path) -> None:
    ours = Environment(PEERS["offpath-sqlite"], tmp_path)
    url, seen = f"sqlite:///{tmp_path}/x.db", tmp_path / "seen"
    ours.run(url, seen, 1, "setup")
    with ours.started(url, seen, 1, "work", output=subprocess.DEVNULL) as worker:
        assert worker.poll() is None
    assert worker.poll() == -9
    assert environment.cpu_of_group(worker.pid) == 0.0


def test_the_page_has_the_range_of_each_figure_and_says_how_busy_the_machine_was() -> None:
    peers = [PEERS["offpath"], PEERS["bullmq"]]
    runs = [2_000, 1_000, 3_000]
    found = {
        "offpath": [
            Figures("offpath", process=rate, server_cpu=30.0, speed=4e7, load=0.1) for rate in runs
        ],
        "bullmq": [Figures("bullmq", process=5_000, speed=2e7, load=99.0)],
    }
    text = page(found, peers, _FEW, server="PostgreSQL 15", command="the command", revision="abc")
    rows = text.splitlines()
    ours, *_ = (row for row in rows if row.startswith("| offpath, Postgres |"))
    theirs, *_ = (row for row in rows if row.startswith("| BullMQ |"))
    assert "| 2,000 (1,000 to 3,000) |" in ours
    assert "| 30 (30 to 30) |" in ours
    assert "| 5,000 |" in theirs
    assert "20 to 40 M steps/s" in text
    assert "load average of 0.1 to 99.0: others used the machine too" in text
    assert "appendonly no" in text


def test_a_new_page_keeps_what_is_written_by_hand() -> None:
    text = Path("docs/performance.md").read_text(encoding="utf-8")
    old, by_hand = text.split("\n## What bounds each bar\n")

    assert with_kept(old, text) == text
    assert with_kept("new\n", text).endswith(by_hand)
    assert with_kept("new\n", "old\n") == "new\n"


def test_the_adapters_are_of_no_package_of_ours() -> None:
    """They run where nothing of this project is installed."""
    for path in ADAPTERS.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "benchmarks" not in text, path.name
        if path.name != "offpath_peer.py":
            assert "import offpath" not in text, path.name
