"""The service of queues: live workers serve them, late ones are told beside these."""

from __future__ import annotations

from msgspec.structs import replace

from offpath.health.fleet import member
from offpath.model.limit import QueueRecord
from offpath.operating.queue_service import describe_queues
from tests.unit.operating.records import a_worker


def test_late_workers_of_a_queue_are_told_beside_live_ones() -> None:
    queues = [
        QueueRecord(name=name, blocked=0, scheduled=0, ready=1, running=0)
        for name in ("exports", "mail")
    ]
    late = a_worker()
    members = [member(late), member(replace(late, late=False))]
    told = {one.name: one for one in describe_queues(queues, [], members).items}
    assert (told["mail"].served_by, told["mail"].late) == (1, 1)
    assert (told["exports"].served_by, told["exports"].late) == (0, 0)
