"""Requests of operators to one worker: quiet, resume, stop, dump. Each is answered once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from offpath.jobs.worker.dump import dump
from offpath.model.lease import WorkerAnswer, WorkerRequest
from offpath.runtime.log import logger

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any

    from offpath.jobs.worker.engine import Engine
    from offpath.jobs.worker.terms import Active
    from offpath.model.lease import WorkerAsk
    from offpath.runtime.tasks import Tasks

_log = logger("worker")


class Requests:
    """Carries out what operators ask of a worker, as it hears of it from the store."""

    def __init__(
        self,
        engine: Engine,
        tasks: Tasks,
        *,
        active: Callable[[], list[Active]],
        stop: Callable[[], Coroutine[Any, Any, object]],
    ) -> None:
        self._engine = engine
        self._tasks = tasks
        self._active = active
        self._stop = stop
        # The store repeats a request with each heartbeat until its answer is written.
        self._heard: set[str] = set()

    def heard(self, asked: Sequence[WorkerAsk]) -> None:
        """Begin what was not heard of before. What is answered is not asked for any more."""
        # the store repeats what waits, so an id that is gone from it may be forgotten
        self._heard.intersection_update(one.id for one in asked)
        for one in asked:
            if one.id not in self._heard:
                self._heard.add(one.id)
                _ = self._tasks.spawn(self._carry_out(one), "asked")

    async def _carry_out(self, one: WorkerAsk) -> None:
        _log.warning("an operator asks the worker to %s", one.request.value)
        text = self._done(one.request)
        answer = WorkerAnswer(id=one.id, request=one.request, text=text)
        try:
            await self._engine.store.answer_worker(self._engine.info.id, answer)
        except Exception:
            self._heard.discard(one.id)  # so that the next heartbeat brings it again
            raise
        finally:
            # also where the answer could not be written: who asks for a stop may do so for that
            if one.request is WorkerRequest.STOP:
                _ = self._tasks.spawn(self._stop(), "stop")

    def _done(self, request: WorkerRequest) -> str:
        heartbeat = self._engine.heartbeat
        match request:
            case WorkerRequest.QUIET:
                heartbeat.hush()
            case WorkerRequest.RESUME:
                heartbeat.unhush()
            case WorkerRequest.DUMP:
                return dump(self._active(), asyncio.all_tasks())
            case WorkerRequest.STOP:
                pass
        return ""
