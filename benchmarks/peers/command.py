"""``python -m benchmarks peers``: installs, runs in turns, and writes the page."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from benchmarks.peers.catalogue import PEERS, Peer
from benchmarks.peers.environment import Environment
from benchmarks.peers.measure import Figures, Sizes, measured
from benchmarks.peers.page import page, with_kept

OURS = ("offpath", "offpath-sqlite")
_ROOT = Path(__file__).parents[2]


def named(text: str) -> list[Peer]:
    """Our own, and the peers of a list of names. Raises ``click.BadParameter``."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in PEERS:
            msg = f"{name!r} is none of {', '.join(PEERS)}"
            raise click.BadParameter(msg)
    return [PEERS[name] for name in dict.fromkeys((*OURS, *names))]


def run(
    peers: Sequence[Peer], server: str, sizes: Sizes, write: str | None, *, keep: str | None
) -> None:
    """Measure these in turns; each run is a line of JSON. ``write`` is the page to write."""
    found: dict[str, list[Figures]] = {peer.name: [] for peer in peers}
    with tempfile.TemporaryDirectory(prefix="offpath-peers-") as folder:
        place = Path(keep or folder)
        environments = [Environment(peer, place / peer.name) for peer in peers]
        for each in environments:
            each.install()
        for turn in range(sizes.runs):
            for each in environments:
                figures = measured(each, server, sizes, os.getloadavg()[0], kill=turn == 0)
                found[each.peer.name].append(figures)
                click.echo(msgspec.json.encode(figures))
    if write is not None:
        text = page(
            found,
            peers,
            sizes,
            server=_server(server),
            command=_command(peers, server, sizes),
            revision=_revision(),
        )
        place = Path(write)
        before = place.read_text(encoding="utf-8") if place.exists() else ""
        place.write_text(with_kept(text, before), encoding="utf-8")


def _command(peers: Sequence[Peer], server: str, sizes: Sizes) -> str:
    names = ",".join(peer.name for peer in peers if peer.name not in OURS)
    told = msgspec.structs.asdict(sizes)
    usual = msgspec.structs.asdict(Sizes())
    more = "".join(f" --{name} {value}" for name, value in told.items() if value != usual[name])
    said = f"--peers {names} --url {server}{more} --write docs/performance.md"
    return f"python -m benchmarks peers {said}"


def _server(url: str) -> str:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        shown = [
            f"{name} {row[0]}"
            for name in ("fsync", "synchronous_commit", "shared_buffers", "autovacuum")
            if (row := connection.execute(f"show {name}".encode()).fetchone())
        ]
        version = (connection.execute("show server_version").fetchone() or ("?",))[0]
    return f"PostgreSQL {str(version).split()[0]} ({', '.join(shown)})"


def _revision() -> str:
    answer = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],  # noqa: S607 - whichever git there is
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.stdout.strip() or "unknown"
