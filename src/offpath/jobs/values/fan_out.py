"""The pieces of a large fan-out: jobs that hold other jobs, and the text that they hold them as."""

from __future__ import annotations

import base64
import zlib
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from offpath.model import fan_out
from offpath.model.fan_out import TASK, divided, parts
from offpath.model.job import NewJob
from offpath.model.options import RunOptions, encode_run
from offpath.model.retry import RetryPolicy
from offpath.runtime.codec import fingerprint
from offpath.runtime.ids import derive_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpath.model.effects import Effects
    from offpath.model.job import JobRecord, LeasedJob

OPTIONS: Final = RunOptions(retry=RetryPolicy(attempts=20), keep=0.0)
"""The options of a piece. Nobody asks for its result, and it holds every input of its jobs, so it
goes as soon as it has succeeded."""
MOST_BYTES: Final = 8 * fan_out.PIECE_BYTES
"""The size to which a piece unpacks at most: few bytes written by hand could unpack to many."""
_STORED: Final = encode_run(OPTIONS)


def in_pieces(effects: Effects, job: LeasedJob) -> Effects:
    """The effects of an attempt of ``job`` with pieces in place of very many jobs."""
    if len(effects.jobs) <= fan_out.WHOLE:
        return effects
    now, later = divided(effects.jobs, effects.gates, job.id)
    if len(later) <= fan_out.WHOLE:
        return effects
    pieces = [_piece(job, number, part) for number, part in enumerate(parts(later))]
    return replace(effects, jobs=(*now, *pieces))


def _piece(job: LeasedJob, number: int, part: Sequence[NewJob]) -> NewJob:
    text = encoded(part)
    fair_keys = {one.fair_key for one in part}
    return NewJob(
        # Of its own delivery: a job that snoozes queues anew what it queues.
        id=derive_id(job.id, f"pieces/{job.deliveries}/{number}"),
        task=TASK,
        input=text,
        fingerprint=fingerprint(TASK, text),
        queue=part[0].queue,
        priority=max(one.priority for one in part),
        # As the jobs of a plan: the pieces are taken in their order.
        delay=-1e-6 * max(1_000_000 - number, 0),
        options=_STORED,
        group_id=job.group_id,
        parent=job.id,
        fair_key=fair_keys.pop() if len(fair_keys) == 1 else None,
    )


def queued_by(piece: LeasedJob | JobRecord, jobs: Sequence[NewJob]) -> tuple[NewJob, ...]:
    """The jobs that a piece queues, with times that count from when it was made.

    Whoever may enqueue may write a piece by hand. So it queues nothing that an enqueue could not:
    members of its own group, at no gate, with no key.
    """
    return tuple(
        replace(
            job,
            run_at=job.run_at or piece.enqueued_at + timedelta(seconds=job.delay),
            delay=0.0,
            parent=piece.parent,
            group_id=piece.group_id,
            gate=None,
            unique=None,
        )
        for job in jobs
    )


# -- the text ------------------------------------------------------------------------------------


class _JobColumns(msgspec.Struct, frozen=True):
    """Jobs by columns: what all have in common is there once."""

    shared: dict[str, Any]
    columns: dict[str, list[Any]]


def encoded(jobs: Sequence[NewJob]) -> str:
    """The jobs as the input of a piece: one opaque JSON string.

    Opaque, because what hides arguments by their names does not look into texts within texts;
    packed, because the transaction that writes it is to be short.
    """
    shared: dict[str, Any] = {}
    columns: dict[str, list[Any]] = {}
    for name in NewJob.__struct_fields__:
        values = [getattr(job, name) for job in jobs]
        if name != "id" and values.count(values[0]) == len(values):
            shared[name] = values[0]
        else:
            columns[name] = values
    packed = zlib.compress(msgspec.json.encode(_JobColumns(shared, columns)), level=1)
    return f'"{base64.b64encode(packed).decode()}"'


def decoded(text: str) -> list[NewJob]:
    """The jobs that :func:`encoded` wrote. Raises ``ValueError`` kinds for anything else."""
    packed = base64.b64decode(msgspec.json.decode(text, type=str), validate=True)
    unpacking = zlib.decompressobj()
    try:
        plain = unpacking.decompress(packed, MOST_BYTES)
    except zlib.error as error:
        raise ValueError(f"this is not a piece of a fan-out: {error}") from None
    if not unpacking.eof:
        raise ValueError("this is not a piece of a fan-out: it is cut off, or unpacks without end")
    held = msgspec.json.decode(plain, type=_JobColumns)
    rows = zip(*held.columns.values(), strict=True)
    made = [{**held.shared, **dict(zip(held.columns, row, strict=True))} for row in rows]
    return msgspec.convert(made, type=list[NewJob])
