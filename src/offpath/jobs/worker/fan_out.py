"""The task of every worker that queues the pieces of large fan-outs."""

from __future__ import annotations

from collections import ChainMap
from typing import TYPE_CHECKING, Any, cast

from offpath.jobs.handler.context import notes_of
from offpath.jobs.values.fan_out import OPTIONS, decoded, queued_by
from offpath.jobs.values.group_codecs import GroupCodecs
from offpath.jobs.values.group_values import GroupValues
from offpath.model.effects import Effects
from offpath.model.fan_out import TASK
from offpath.model.job import NewJob
from offpath.model.options import encode_run
from offpath.runtime.codec import Codec, JsonCodec
from offpath.runtime.signature import ResultModel

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping, Sequence

    from offpath.jobs.handler.context import JobContext
    from offpath.jobs.values.run import Run
    from offpath.jobs.values.runnable import (
        Around,
        BatchSpec,
        LogContext,
        OnEvent,
        OnFailure,
        Runnable,
    )
    from offpath.model.headers import TraceRelation
    from offpath.model.options import RunOptions
    from offpath.model.retry import BackoffFunction


class _Pieces:
    """The input side: the jobs of a piece."""

    def decode(self, text: str, /) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The jobs as the one argument."""
        return (decoded(text),), {}


async def _queue(ctx: JobContext, jobs: list[NewJob]) -> None:
    """Queue the jobs with the end of this attempt. A repeat queues the same ids."""
    notes = notes_of(ctx)
    notes.plan(Effects(jobs=queued_by(notes.run.job, jobs)))


class FanOutTask:
    """The task, as the worker sees tasks."""

    name = TASK
    fn = staticmethod(_queue)
    is_async = True
    takes_context = True
    strict = True
    concurrency = 1
    """So that no worker writes several pieces in one transaction."""
    batch: BatchSpec | None = None
    own_options: RunOptions = OPTIONS
    template = NewJob(id="", task=TASK, input="{}", fingerprint="", options=encode_run(OPTIONS))
    backoff: BackoffFunction | None = None
    on_failure: OnFailure | None = None
    on_event: OnEvent | None = None
    log_context: LogContext | None = None
    around: Sequence[Around] = ()
    """None: a piece is our own work, not a handler of the user's."""
    trace: TraceRelation | None = None

    def __init__(self) -> None:
        codec: Codec = JsonCodec()
        self.inputs = _Pieces()
        self.results = ResultModel(None, codec=codec, name=TASK)
        self.group_values = GroupValues(None, codec, TASK, GroupCodecs(codec, {}))


def with_fan_out(tasks: Mapping[str, Runnable]) -> Mapping[str, Runnable]:
    """The tasks that a worker runs: an app's, those that it will define too, and this one."""
    return ChainMap({TASK: FanOutTask()}, cast("MutableMapping[str, Runnable]", tasks))


def ours(run: Run) -> bool:
    """True for a piece: whoever is asked which jobs run here does not know of it."""
    return run.job.task == TASK
