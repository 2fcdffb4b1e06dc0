"""The outcome of an attempt: from what a handler did, and why it was asked to end."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, assert_never

from msgspec import Struct
from msgspec.structs import replace

from offpath.errors import (
    Abort,
    Conflict,
    GateError,
    OffpathError,
    PlanError,
    ResultError,
    RetryAfter,
    SignalError,
    Snooze,
    StepError,
)
from offpath.jobs.handler.plan_verbs import named_anew
from offpath.jobs.values import classification
from offpath.jobs.values.classification import Decision, FailureInfo, Moment
from offpath.jobs.values.fan_out import in_pieces
from offpath.jobs.values.run import Interruption
from offpath.jobs.values.runnable import OnFailure
from offpath.jobs.values.suspension import Suspended, suspended
from offpath.model import retry
from offpath.model.effects import NOTHING
from offpath.model.headers import decoded_headers
from offpath.model.job import DeadReason, Failure, unreadable_row
from offpath.model.ledger.faults import another_time, beyond_retry
from offpath.model.settlement import (
    Cancelled,
    Dead,
    Outcome,
    Released,
    Retry,
    Settlement,
    Snoozed,
    Succeeded,
    Waiting,
)
from offpath.runtime.baggage import PLAIN, HeaderRules, carrying
from offpath.runtime.failures import failure_of, traceback_of
from offpath.runtime.seats import asked, called

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from offpath.jobs.values.run import Run
    from offpath.runtime.clock import Clock
    from offpath.runtime.extensions import Extensions

_CARRIED = (Succeeded, Snoozed, Waiting)
"""Outcomes with effects."""
_HEEDED = (Abort, RetryAfter, Snooze, Suspended)
"""Raised on purpose: heeded also from a handler that was told to end."""
_MISMADE = (PlanError, GateError, StepError)
"""Errors of the program in how the handler's work is laid out: every attempt would make them."""
_WRONG = (*_MISMADE, ResultError)
"""Errors of the program: a retry would do everything again, and end alike."""


class AttemptRules(Struct, frozen=True, kw_only=True):
    """The app's decisions for all its attempts. Durations in seconds; None keeps for ever."""

    keep_succeeded: float | None = None
    """The time for which succeeded jobs are kept, unless the job says otherwise."""
    keep_dead: float | None = None
    keep_cancelled: float | None = None
    on_failure: OnFailure | None = None
    headers: HeaderRules = PLAIN
    abort_fails: bool = False
    """True if a job that a stopping worker aborts is dead, instead of given back."""


_TOLD = frozenset({100, 1_000, 10_000, 100_000})
"""The numbers of times put off at which a job's line says so."""


class Restless(OffpathError):
    """A job is put off again and again, and none of its attempts counts."""

    code = "restless"


class Judge:
    """Turns what happened into outcomes. It changes nothing and keeps nothing."""

    def __init__(
        self,
        clock: Clock,
        rules: AttemptRules,
        *,
        report: Callable[[BaseException, str], None],
        random: Callable[[], float],
        extensions: Extensions | None = None,
    ) -> None:
        self._extensions = extensions if extensions is not None and extensions.sends else None
        self._clock = clock
        self._rules = rules
        self._report = report
        self._random = random

    def settlement(self, run: Run, outcome: Outcome) -> Settlement:
        """Return the end of ``run``, with the effects its handler asked for if it may have them."""
        # Only an end that stands may have effects: a failed attempt may run again, and would
        # add its jobs twice.
        carried = isinstance(outcome, _CARRIED)
        if not carried:
            outcome = self._signed(run, outcome)
        effects = run.context.effects() if carried and run.context is not None else NOTHING
        if effects and isinstance(outcome, Snoozed):
            named = frozenset[str]() if run.context is None else run.context.named
            effects = named_anew(effects, run.job.deliveries, named)
        if effects and self._extensions is not None:
            with self._extensions.sending(effects, cause=run.running) as ready:
                effects = ready
        if effects and run.job.headers is not None:
            effects = carrying(effects, self.passed_on(run))
        # After the headers were added, which each piece carries with its jobs.
        effects = in_pieces(effects, run.job)
        if run.gives is not None and isinstance(outcome, Succeeded):
            effects = replace(effects, contributions=(*effects.contributions, run.gives))
        return Settlement(
            job=run.job, outcome=outcome, effects=effects, keep=self._keep(run, outcome)
        )

    def _signed(self, run: Run, outcome: Outcome) -> Outcome:
        """The outcome, whose failure says who ran the attempt, and since when."""
        failure = getattr(outcome, "failure", None)
        if failure is None:
            return outcome
        began = None if run.started_at is None else run.store_time.at(run.started_at)
        signed = replace(failure, started_at=began, worker=run.job.worker)
        return replace(outcome, failure=signed)

    @property
    def passes_on(self) -> bool:
        """True if headers of jobs are passed on to what their handlers make."""
        return bool(self._rules.headers.carry)

    def passed_on(self, run: Run) -> Mapping[str, str]:
        """The headers of ``run`` that are passed on."""
        return self._rules.headers.carried(decoded_headers(run.job.headers))

    def returned(self, run: Run, succeeded: Succeeded) -> Outcome | None:
        """Judge a handler that returned; None when there is nothing left that we may write.

        A value in time is a success, also in a worker that stops or doubts its lease: the store's
        fence decides about the latter.
        """
        match run.interrupted:
            case None | Interruption.STOP | Interruption.EXPIRED:
                return succeeded
            case Interruption.LOST:
                return None
            case Interruption.CANCEL:
                return Cancelled()
            case Interruption.DEADLINE:
                return self._overrun(run)
            case Interruption.TIMEOUT:
                moment, failure = self._moment(run), self._timed_out(run, None)
                return classification.failed(failure, moment, self._backoff(run))
        assert_never(run.interrupted)

    async def raised(self, run: Run, error: BaseException) -> Outcome | None:
        """Judge a handler that raised; None when there is nothing left that we may write."""
        # A sleep or a wait may come wrapped, as by a task group of the handler.
        error = suspended(error) or error
        heeded = isinstance(error, _HEEDED)
        match run.interrupted:
            case None:
                return await self._failed(run, error)
            case Interruption.LOST:
                return None
            case Interruption.CANCEL:
                return self._cancelled(run, error)
            case Interruption.DEADLINE:
                return self._overrun(run)
            case Interruption.EXPIRED:
                return Released()
            case Interruption.STOP:
                final = heeded or isinstance(error, _WRONG)
                return await self._failed(run, error) if final else self.stopped(run)
            case Interruption.TIMEOUT:
                timeout = error if heeded else self._timeout(run)
                return await self._failed(run, timeout, self._timed_out(run, error))
        assert_never(run.interrupted)

    def unfit(self, run: Run) -> Dead | None:
        """Judge a job that is about to run: dead when its row cannot be read, or its deadline has
        passed; otherwise None.
        """
        if run.job.unreadable is not None:
            failure = unreadable_row(run.job.unreadable, run.job.attempt)
            return Dead(reason=DeadReason.UNREADABLE, failure=failure)
        deadline = run.job.deadline
        if deadline is None:
            return None
        moment = self._moment(run)
        return classification.expired(moment, deadline, "before it ran") if moment.over else None

    def unreadable(self, run: Run, error: Exception) -> Dead:
        """Judge an input, or a signal, that does not decode: no attempt of any worker can."""
        return Dead(reason=DeadReason.BAD_INPUT, failure=self._failure(run, error, "bad_input"))

    def refused(self, run: Run, error: Exception | None) -> Outcome:
        """Judge an end that the store would not take.

        A conflict (a child's unique key is taken) and an overdraft count as the handler's failure,
        as if it had raised it: the key may be free at the next attempt, the account filled. A value
        that cannot be stored would be refused again, so the job is dead, and so would a gate or a
        posting that cannot be, or an operation that was declined.
        """
        if isinstance(error, GateError):
            return self._wrong(run, error)
        if isinstance(error, Conflict) or another_time(error):
            failure = self._failure(run, error)
            return classification.failed(failure, self._moment(run), self._backoff(run))
        text = "the store refused the job's end without a reason"
        failure = self._failure(run, error or RuntimeError(text), "unsettleable")
        return Dead(reason=DeadReason.UNSETTLEABLE, failure=failure)

    def retried(self, run: Run, refused: Retry) -> Retry:
        """Judge a retry that the store refused: it stays one, with nothing foreign in it.

        A job with attempts left does not die of what could not be written about the last one.
        """
        failure = Failure(
            kind=refused.failure.kind,
            type="StoreRejected",
            message="the attempt failed, and the store refused the description of its failure",
            attempt=run.job.attempt,
            at=self._moment(run).now,
        )
        return Retry(delay=refused.delay, failure=failure)

    def unsettleable(self, run: Run) -> Dead:
        """Judge an end that the store refused with its failure too: with nothing foreign in it."""
        failure = Failure(
            kind="unsettleable",
            type="StoreRejected",
            message="the store refused how this attempt ended, and the description of that too",
            attempt=run.job.attempt,
            at=self._moment(run).now,
        )
        return Dead(reason=DeadReason.UNSETTLEABLE, failure=failure)

    def broken(self, run: Run, error: BaseException) -> Outcome:
        """Judge an attempt that the engine itself failed to run: it counts as a failure."""
        return classification.failed(
            self._failure(run, error), self._moment(run), self._backoff(run)
        )

    def stopped(self, run: Run) -> Outcome:
        """Judge an attempt that a stopping worker ended."""
        if not self._rules.abort_fails:
            return Released()
        failure = Failure(
            kind="aborted",
            type="Aborted",
            message="aborted: its worker was stopped",
            attempt=run.job.attempt,
            at=self._moment(run).now,
        )
        return Dead(reason=DeadReason.ABORTED, failure=failure)

    # -- failures --------------------------------------------------------------------------------

    async def _failed(
        self, run: Run, error: BaseException, failure: Failure | None = None
    ) -> Outcome:
        moment = self._moment(run)
        if isinstance(error, Suspended):
            if isinstance(error.until, Waiting):
                return error.until
            return self._snoozed(run, error.until, moment, 0)  # a step: each is another one
        if isinstance(error, Snooze):
            return self._snoozed(run, error, moment, self._uncounted(run))
        if isinstance(error, Abort):
            return classification.aborted(error, moment)
        if isinstance(error, _WRONG):
            return self._wrong(run, error)
        if isinstance(error, SignalError):
            return self.unreadable(run, error)
        said = isinstance(error, RetryAfter)
        verdict = error if said else await self._classified(run, error)
        if isinstance(verdict, Snooze):
            return self._snoozed(run, verdict, moment, self._uncounted(run))
        if isinstance(verdict, RetryAfter):
            return self._retried(run, verdict, error, failure)
        if verdict is Decision.ABORT or (verdict is None and beyond_retry(error)):
            return classification.aborted(error, moment)
        return classification.failed(
            failure or self._failure(run, error), moment, self._backoff(run)
        )

    def _retried(
        self, run: Run, again: RetryAfter, error: BaseException, failure: Failure | None
    ) -> Outcome:
        try:
            return classification.retried(again, error, self._moment(run), failure)
        except ValueError as mistake:
            found = self._failure(run, mistake)
            return classification.failed(found, self._moment(run), self._backoff(run))

    def _wrong(self, run: Run, error: BaseException) -> Dead:
        """Dead at once, by an error of the program."""
        mismade = isinstance(error, _MISMADE)
        reason = DeadReason.INVALID_PLAN if mismade else DeadReason.UNSETTLEABLE
        return Dead(reason=reason, failure=self._failure(run, error, reason.value))

    def _uncounted(self, run: Run) -> int:
        """The number of times that a job was put off before; reported now and then where that is
        very often.
        """
        uncounted = run.job.deliveries - run.job.attempt - run.job.losses
        if uncounted in _TOLD:
            msg = (
                f"job {run.job.id} of task {run.job.task} was put off {uncounted} times without an "
                "attempt that counts: does its Snooze name a time that has passed?"
            )
            self._report(Restless(msg), "snooze")
        return uncounted

    def _snoozed(self, run: Run, snooze: Snooze, moment: Moment, uncounted: int) -> Outcome:
        try:
            if run.context is not None:
                run.context.require_bounded()
            return classification.snoozed(snooze, moment, uncounted=uncounted)
        except PlanError as error:
            return self._wrong(run, error)
        except (TypeError, ValueError) as error:
            return classification.failed(self._failure(run, error), moment, self._backoff(run))

    async def _classified(self, run: Run, error: BaseException) -> classification.Verdict:
        """Ask the task's classifier, otherwise the app's. One that fails is reported and means
        retry.
        """
        classifier = run.task.on_failure or self._rules.on_failure
        if classifier is None:
            return None
        try:
            return classification.verdict(await asked(classifier, error, self._info(run)))
        except Exception as fault:  # noqa: BLE001 - the handler's error counts, not this one
            self._report(fault, "classify")
            return Decision.RETRY

    def _backoff(self, run: Run) -> float:
        policy, failures = run.options.retry, run.job.attempt
        function = run.task.backoff
        if function is not None and policy.kind is retry.BackoffKind.CUSTOM:
            try:
                return retry.custom_delay(partial(called, function), failures)
            except Exception as error:  # noqa: BLE001 - a broken backoff must not lose the retry
                self._report(error, "backoff")
        return retry.delay(policy, failures, self._random())

    def _cancelled(self, run: Run, error: BaseException) -> Cancelled:
        quiet = isinstance(error, asyncio.CancelledError)
        return Cancelled(failure=None if quiet else self._failure(run, error, "cancelled"))

    def _overrun(self, run: Run) -> Dead:
        moment = self._moment(run)
        return classification.expired(moment, run.job.deadline or moment.now, "while it ran")

    @staticmethod
    def _timeout(run: Run) -> TimeoutError:
        return TimeoutError(f"the attempt ran longer than its timeout of {run.options.timeout:g} s")

    def _timed_out(self, run: Run, error: BaseException | None) -> Failure:
        return Failure(
            kind="timeout",
            type="TimeoutError",
            message=str(self._timeout(run)),
            # Where it was when it was cancelled: usually the call that hung.
            traceback=None if error is None else traceback_of(error),
            attempt=run.job.attempt,
            at=self._moment(run).now,
        )

    def _failure(self, run: Run, error: BaseException, kind: str = "error") -> Failure:
        at = run.store_time.at(self._clock.monotonic())
        return failure_of(error, attempt=run.job.attempt, at=at, kind=kind)

    # -- values ----------------------------------------------------------------------------------

    def _moment(self, run: Run) -> Moment:
        return Moment(
            attempt=run.job.attempt,
            attempts=run.options.retry.attempts,
            now=run.store_time.at(self._clock.monotonic()),
            deadline=run.job.deadline,
        )

    def _info(self, run: Run) -> FailureInfo:
        job = run.job
        return FailureInfo(
            id=job.id,
            task=job.task,
            queue=job.queue,
            group_id=job.group_id,
            attempt=job.attempt,
            attempts=run.options.retry.attempts,
            deliveries=job.deliveries,
        )

    def _keep(self, run: Run, outcome: Outcome) -> float | None:
        """The time for which the ended job is kept. A job that goes on may still end here: by a
        cancel.
        """
        match outcome:
            case Succeeded():
                return run.options.keep_succeeded(self._rules.keep_succeeded)
            case Dead():
                return self._rules.keep_dead
            case _:
                return self._rules.keep_cancelled
