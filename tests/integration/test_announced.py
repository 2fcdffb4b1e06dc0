"""A state and its event are one: after any crash, and all the way to a webhook's receiver."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

import offpath
from offpath.config import load_settings
from offpath.events import BadSignature, Verifier, new_secret
from offpath.events.webhook.poster import HttpPoster, Post
from offpath.model.announce import STREAM, sequence
from offpath.model.endpoint import Endpoint
from offpath.model.job import JobState
from offpath.model.webhook import Delivered, Refused
from offpath.runtime.clock import ManualClock
from tests.conformance.backends import Backend
from tests.conformance.builders import START
from tests.integration import events_service as service
from tests.integration.crashing import Crasher
from tests.integration.fleet import Fleet
from tests.integration.polling import eventually
from tests.integration.scale import CAMPAIGN
from tests.integration.test_webhooks import LOCAL, Receiver, status

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator
    from pathlib import Path

_WAITING = {"ready": "queued", "scheduled": "queued"}
"""States that stores tell apart and users do not."""
MOST = 100
"""No transition has more statements."""
CHANGES = (
    "commit",
    *("announced lease", "announced settle", "announced cancel"),
    *("announced redrive", "announced rescue", "announced loss"),
)
USUAL = ("commit", "announced settle")


@pytest.fixture(scope="module")
def crasher() -> Iterator[Crasher]:
    """Makes processes that are killed."""
    with Crasher() as made:
        yield made


@pytest.fixture
def backend(url: str, tmp_path: Path) -> Backend:
    """A store of each kind that outlives a process."""
    if url.startswith("sqlite"):
        return Backend("sqlite", str(tmp_path / "first.db"))
    made = Backend("postgres", url)
    made.hurry()
    return made


def _told(backend: Backend) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """Jobs that are announced, and what was announced of each, in order."""
    tables = {name.replace("offpath.", "offpath_"): rows for name, rows in backend.rows().items()}
    jobs = {str(row["id"]): row for row in tables["offpath_job"] if row["announce"]}
    said: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in sorted(tables["offpath_message"], key=lambda row: int(row["position"])):
        if row["stream"] == STREAM:
            told = json.loads(row["payload"])
            said[told["job"]].append(told)
    return jobs, said


def _state_and_events_are_one(backend: Backend) -> int:
    """Fail if a job has a state without its event, or an event without its state; how many events.

    The number of a change follows from the job's row, so that the last one told tells all.
    """
    jobs, said = _told(backend)
    assert set(said) == set(jobs)
    for job_id, row in jobs.items():
        *before, last = said[job_id]
        state = JobState(_WAITING.get(row["state"], row["state"]))
        number = sequence(state, int(row["deliveries"]), int(row["redrives"]))
        assert (last["state"], last["sequence"]) == (state, number)
        numbers = [one["sequence"] for one in said[job_id]]
        assert numbers == sorted(set(numbers))
        chain = [None, *(one["state"] for one in before)]
        assert [one["previous"] for one in said[job_id]] == chain
    return sum(len(events) for events in said.values())


@pytest.mark.timeout(180)
@pytest.mark.parametrize("change", CHANGES)
def test_a_crash_at_any_statement_leaves_no_state_without_its_event_nor_the_reverse(
    crasher: Crasher, backend: Backend, tmp_path: Path, change: str
) -> None:
    if backend.many_writers and change not in USUAL and not CAMPAIGN:
        pytest.skip("of the slower backend only some changes, but in a campaign")
    counts: list[int] = []
    for at in range(1, MOST):
        backend = backend.emptied(tmp_path / f"{at}.db")
        crashed = crasher.crashed(change, at, backend)
        counts.append(_state_and_events_are_one(backend))
        if not crashed:
            break
    assert 2 <= len(counts) < MOST - 1, "it was killed at least once, and went through in the end"
    assert counts[0] < counts[-1]
    assert set(counts) == {counts[0], counts[-1]}, "before or after"


@pytest.mark.timeout(120)
@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_changes_arrive_signed_in_order_and_a_repeat_is_known_by_its_id(
    app: offpath.App, fleet: Fleet
) -> None:
    """A receiver of the real kind: it asks for patience first, so each change is posted again."""
    turned_away: set[str] = set()

    async def answer(writer: asyncio.StreamWriter) -> None:
        headers, _ = receiver.got[-1]
        if (message := headers["webhook-id"]) in turned_away:
            return await status("204 No Content")(writer)
        turned_away.add(message)
        return await status("503 Service Unavailable", "Retry-After: 0")(writer)

    receiver = Receiver(answer)
    await receiver.start()
    try:
        app.settings = load_settings(
            url=fleet.url, webhook_networks=("127.0.0.0/8",), webhook_http=True
        )
        added = await app.webhooks.add("shop", receiver.url)
        jobs = [service.announced.job(number) for number in (1, -1, 2)]
        handles = await app.enqueue(jobs)
        await fleet.up(
            app, target="tests.integration.events_service:app", poll_interval=0.2,
            webhook_networks="127.0.0.0/8", webhook_http="true",
        )  # fmt: skip

        def accepted() -> bool:
            ids = [headers["webhook-id"] for headers, _ in receiver.got]
            return sum(ids.count(one) > 1 for one in turned_away) >= 9

        await eventually(accepted, within=60, what="three changes of three jobs are accepted")
    finally:
        await receiver.close()
    verifier = Verifier(added.secret)
    seen: dict[str, bytes] = {}
    for headers, body in receiver.got:
        message = verifier.verify(body, headers)
        assert seen.setdefault(message, body) == body, "a repeat is the same to the byte"
    told: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for body in seen.values():
        change = json.loads(body)
        change = change.get("data", change)
        told[change["job"]].append((change["sequence"], change["state"]))
    ends = ("succeeded", "dead", "succeeded")
    for handle, end in zip(handles, ends, strict=True):
        changes = sorted(told[handle.id])
        assert [state for _, state in changes] == ["queued", "running", end]
        assert len({number for number, _ in changes}) == 3


async def test_a_post_whose_answer_is_lost_is_repeated_under_its_id_and_signed_anew() -> None:
    """Cases B10 and N6: the receiver has it, and is told again six hours later."""

    async def lose(writer: asyncio.StreamWriter) -> None:
        if len(receiver.got) == 1:
            writer.transport.abort()
        else:
            await status("204 No Content")(writer)

    receiver = Receiver(lose)
    await receiver.start()
    clock = ManualClock(START)
    secret = new_secret()
    poster = HttpPoster(LOCAL, clock)
    endpoint = Endpoint(name="shop", url=receiver.url, secrets=(secret,))
    verifier = Verifier(secret, clock=clock)
    try:
        post = Post(endpoint, "msg_1", b'{"n":1}')
        assert isinstance(await poster.post(post), Refused)
        (first,) = receiver.got
        assert verifier.verify(first[1], first[0]) == "msg_1"
        clock.advance(6 * 3_600)
        assert await poster.post(post) == Delivered(204)
    finally:
        await poster.close()
        await receiver.close()
    _, again = receiver.got
    assert again[1] == first[1]
    assert verifier.verify(again[1], again[0]) == "msg_1"
    with pytest.raises(BadSignature):
        verifier.verify(first[1], first[0])
