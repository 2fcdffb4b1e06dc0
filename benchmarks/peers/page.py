"""The page that a run writes: every figure with its range, the versions, the settings and the date."""

from __future__ import annotations

import datetime as dt
import math
import os
import platform
from collections.abc import Callable, Mapping, Sequence

from benchmarks.peers.catalogue import Peer
from benchmarks.peers.measure import Figures, Sizes

_COLUMNS: Sequence[tuple[str, Callable[[Figures], float | None], int]] = (
    ("enqueue one", lambda each: each.enqueue_one, 0),
    ("caller CPU", lambda each: each.caller_cpu, 0),
    ("enqueue lists", lambda each: each.enqueue_bulk, 0),
    ("process", lambda each: each.process, 0),
    ("worker CPU", lambda each: each.worker_cpu, 0),
    ("server CPU", lambda each: each.server_cpu, 0),
    ("pick-up p50", lambda each: each.pickup_p50, 1),
    ("pick-up p99", lambda each: each.pickup_p99, 1),
)


BY_HAND = "\n## What bounds each bar\n"
"""The heading of the part that no run writes."""


def with_kept(text: str, before: str) -> str:
    """A new page, with the part of the one before that is written by hand."""
    _, heading, kept = before.partition(BY_HAND)
    return text + heading + kept


def page(
    found: Mapping[str, Sequence[Figures]],
    peers: Sequence[Peer],
    sizes: Sizes,
    *,
    server: str,
    command: str,
    revision: str,
) -> str:
    """The whole page, as Markdown."""
    runs = [each for several in found.values() for each in several]
    speeds, loads = [each.speed / 1e6 for each in runs], [each.load for each in runs]
    today = dt.datetime.now(tz=dt.UTC).date()
    return f"""# Performance

Other job libraries beside this one, on one machine in one run. [Benchmarks](benchmarks.md) has what this library does by itself, beside the bare
database. This page is written by the command below: change the command, not the page.

<!-- skip: takes many minutes, and needs the package registries -->
```console
$ {command}
```

{today}, revision {revision}. {os.cpu_count()} cores that client, worker and server share; Python {platform.python_version()}, {server}. A fixed Python loop
made {min(speeds):.0f} to {max(speeds):.0f} M steps/s before the runs, at a load average of {min(loads):.1f} to {max(loads):.1f}{_busy(loads)}.

Runs of each, in turns: {sizes.runs}. The median, and in brackets the least and the most. {sizes.slots} slots in one worker process, {sizes.jobs:,} jobs that do
nothing, {sizes.singles:,} enqueues one after another, {sizes.probes} probes at {sizes.rate} a second. Rates are jobs a second, CPU is µs a job, pick-up is ms.

| | {" | ".join(title for title, _, _ in _COLUMNS)} | after a kill |
|---|{"---:|" * (len(_COLUMNS) + 1)}
{_rows(found, peers)}

- **enqueue one**: one caller that waits until each job is stored, and its CPU. **enqueue lists**: lists of 1,000.
- **process**: from the first handler to the end of the last job in the store, start-up left out. The CPU is of that time: of the worker's processes, and of
  the Postgres server with all its processes, by the system's ticks of 10 ms.
- **after a kill**: seconds from the `kill -9` of a worker with ten running jobs until the last of them has begun again in a worker that is started at
  once. Measured in the first run. "Not waited for": not within {sizes.patience} s.
- **pick-up**: from before the call of another process that enqueues, to the handler's first line in an idle worker.

| | version | settings | on the disk |
|---|---|---|---|
{_settings(peers, revision)}
"""


def _busy(loads: Sequence[float]) -> str:
    cores = os.cpu_count() or 1
    if max(loads) < cores:
        return ""
    return ": others used the machine too, so rates and pick-up are low for all, and CPU is the safer number"


def _rows(found: Mapping[str, Sequence[Figures]], peers: Sequence[Peer]) -> str:
    rows = []
    for peer in peers:
        cells = [
            _cell([take(one) for one in found[peer.name]], digits) for _, take, digits in _COLUMNS
        ]
        cells.append(_again([one.again for one in found[peer.name]]))
        rows.append(f"| {peer.title} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _cell(values: Sequence[float | None], digits: int) -> str:
    known = sorted(value for value in values if value is not None)
    if not known:
        return ""
    median = known[len(known) // 2]
    if len(known) == 1:
        return f"{median:,.{digits}f}"
    return f"{median:,.{digits}f} ({known[0]:,.{digits}f} to {known[-1]:,.{digits}f})"


def _again(values: Sequence[float | None]) -> str:
    known = next((value for value in values if value is not None), None)
    if known is None:
        return ""
    return "not waited for" if math.isinf(known) else f"{known:,.1f}"


def _settings(peers: Sequence[Peer], revision: str) -> str:
    return "\n".join(
        f"| {peer.title} | {', '.join(peer.packages) or f'revision {revision}'} | {peer.settings} "
        f"| {peer.durable} |"
        for peer in peers
    )
