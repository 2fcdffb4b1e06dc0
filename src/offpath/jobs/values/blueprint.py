"""From a call's arguments to a job: bound, checked, encoded, every option resolved.

Everything that can be refused is refused here, before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from offpath.errors import InvalidArgument, TooLarge
from offpath.jobs.values import names
from offpath.jobs.values.job import Job
from offpath.model.headers import refuse_secrets
from offpath.model.job import NewJob
from offpath.model.limit_options import LimitChoice, checked_limit, limit_of
from offpath.model.limit_options import fair_key as checked_fair_key
from offpath.model.option_checks import checked_queue_time, checked_unique
from offpath.model.options import (
    OptionLevel,
    Options,
    Resolved,
    RunOptions,
    Unique,
    claim_of,
    encode_run,
    over,
    resolve,
    resolve_keys,
)
from offpath.runtime.codec import Codec, fingerprint
from offpath.runtime.ids import parse_id

if TYPE_CHECKING:
    from offpath.jobs.values.handle import Handle

Computed = Callable[..., Options | None]
UniqueOf = Callable[..., Unique | str | None]
LimitOf = Callable[..., LimitChoice]
FairKeyOf = Callable[..., str | None]


class InputForm(Protocol):
    """The form of arguments as text."""

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """Check a call's arguments. Raises ``InvalidInput``."""
        ...

    def encode(self, bound: Any) -> str:  # noqa: ANN401
        """The text to store."""
        ...

    def fingerprint(self, bound: Any, text: str) -> str:  # noqa: ANN401
        """Tells a repeat from another call."""
        ...


class Sender(Protocol):
    """The receiver of jobs that are sent: the app."""

    @property
    def max_input_bytes(self) -> int:
        """The largest input."""
        ...

    def new_id(self) -> str:
        """A new id."""
        ...

    async def send(
        self, jobs: Sequence[Job[Any, Any]], within: object, *, inline: bool | None = None
    ) -> list[Handle[Any, Any]]:
        """Enqueue jobs in one commit, or begin one."""
        ...

    def handle(
        self,
        job_id: str,
        decode: Callable[[str | None], Any],
        decode_group: Callable[[str | None], Any] | None = None,
    ) -> Handle[Any, Any]:
        """The handle of a job that was enqueued before."""
        ...


class Blueprint(Struct, frozen=True, kw_only=True):
    """All that makes a call of one task into a job."""

    name: str
    inputs: InputForm
    decode: Callable[[str | None], Any]
    """The reader of its result."""
    decode_group: Callable[[str | None], Any] | None = None
    """The reader of the value of a group whose first job it is; None: as its result."""
    sender: Sender
    levels: tuple[OptionLevel, ...] = ()
    """The task's own defaults, then the app's."""
    plain: Resolved = Resolved()
    """The options that these levels alone resolve to: most jobs need nothing else."""
    computed: Computed | None = None
    unique_of: UniqueOf | None = None
    limit_of: LimitOf | None = None
    fair_key_of: FairKeyOf | None = None
    strict: bool = True
    """True: what would be stored and should not be is refused, as a header of a secret name."""

    def job(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        level: OptionLevel | None,
        *,
        sent: bool = False,
    ) -> Job[Any, Any]:
        """One job. ``level`` is what was given at queue time. ``sent``: it is sent at once."""
        bound = self.inputs.bind(args, kwargs)
        text = self.inputs.encode(bound)
        _check_size(self.name, text, self.sender.max_input_bytes)
        mark = self.inputs.fingerprint(bound, text)
        resolved = self._resolved(args, kwargs, level)
        # Nearly all jobs are built outside of a handler, where nothing names them.
        unnamed = resolved.id or names.naming.get() is None
        name = None if unnamed else names.child_name(mark, sent=sent)
        job_id = resolved.id or (self.sender.new_id() if name is None else name.id)
        new = self._new(job_id, text, mark, resolved)
        again = partial(self._again, args, kwargs, level)
        return Job(new, self.decode, self.decode_group, again, name)

    def template(self) -> NewJob:
        """A job without an input, as a call gives that says nothing; without what is computed."""
        return self._new("", "{}", "", self.plain)

    def _again(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        level: OptionLevel | None,
        new: NewJob,
        upper: OptionLevel,
    ) -> NewJob:
        """The same job with other options over those it was made with."""
        resolved = self._resolved(args, kwargs, over(upper, level))
        return self._new(new.id, new.input, new.fingerprint, resolved)

    def _new(self, job_id: str, text: str, fingerprint: str, resolved: Resolved) -> NewJob:
        if resolved.headers is not None and self.strict:
            refuse_secrets(resolved.headers)
        return NewJob(
            id=job_id,
            task=self.name,
            input=text,
            fingerprint=fingerprint,
            queue=resolved.queue,
            priority=resolved.priority,
            delay=resolved.delay,
            run_at=resolved.run_at,
            deadline=resolved.deadline,
            deadline_in=resolved.deadline_in,
            options=resolved.run,
            unique=resolved.unique and claim_of(self.name, resolved.unique),
            tags=resolved.tags,
            announce=resolved.announce,
            group_policy=resolved.group_policy,
            limit=resolved.limit and limit_of(self.name, resolved.limit),
            fair_key=resolved.fair_key,
            headers=resolved.headers,
        )

    def _resolved(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], level: OptionLevel | None
    ) -> Resolved:
        if level is None and self.computed is None:
            keys = self._keyed(args, kwargs)
            return self.plain if keys is None else resolve_keys(keys, self.plain)
        asked = (level, self._computed(args, kwargs), self._keyed(args, kwargs))
        return resolve((*(one for one in asked if one is not None), *self.levels))

    def _computed(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> OptionLevel | None:
        options = None if self.computed is None else self.computed(*args, **kwargs)
        return None if options is None else _computed_level(self.name, options)

    def _keyed(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> OptionLevel | None:
        if self.unique_of is None and self.limit_of is None and self.fair_key_of is None:
            return None
        unique = None if self.unique_of is None else self.unique_of(*args, **kwargs)
        limit = None if self.limit_of is None else self.limit_of(*args, **kwargs)
        fair = None if self.fair_key_of is None else self.fair_key_of(*args, **kwargs)
        return OptionLevel(
            unique=checked_unique(unique),
            limit=checked_limit(limit),
            fair_key=checked_fair_key(fair),
        )


class ElsewhereBlueprint(Blueprint, frozen=True, kw_only=True):
    """Makes jobs of a task that another service defines: how they run is what that one says."""

    def _new(self, job_id: str, text: str, fingerprint: str, resolved: Resolved) -> NewJob:
        run = _OF_TASK if resolved.run == "{}" else resolved.run
        return super()._new(job_id, text, fingerprint, replace(resolved, run=run))


_OF_TASK = encode_run(RunOptions(of_task=True))


class AnyInputs:
    """The input of a task that this app does not know: keyword arguments, taken as they are."""

    def __init__(self, name: str, codec: Codec) -> None:
        self._name = name
        self._codec = codec

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Keyword arguments only: their names are all that is known."""
        if args:
            raise InvalidArgument(
                f"task {self._name!r} is not registered here: give its arguments by keyword"
            )
        return kwargs

    def encode(self, bound: Any) -> str:  # noqa: ANN401 - a mapping of anything
        """A JSON object (or whatever the app's codec makes of a dict)."""
        return self._codec.encode(bound)

    def fingerprint(self, bound: Any, text: str) -> str:  # noqa: ANN401, ARG002
        """By name and text, as for a registered task with a plain input."""
        return fingerprint(self._name, text)


def queue_level(options: Options) -> OptionLevel:
    """Checked options of one enqueue. Raises ``InvalidArgument``."""
    level = checked_queue_time(options)
    return level if level.id is None else replace(level, id=parse_id(level.id, "id"))


def _computed_level(name: str, options: object) -> OptionLevel:
    if not isinstance(options, Options):
        raise InvalidArgument(
            f"options= of task {name!r} must return offpath.Options or None, "
            f"not {type(options).__name__}"
        )
    return queue_level(options)


def _check_size(name: str, text: str, limit: int) -> None:
    # A character is at most four bytes: only a large text is worth encoding to be measured.
    if len(text) * 4 > limit and (size := len(text.encode())) > limit:
        raise TooLarge(
            f"the input of task {name!r} has {size} bytes, over the limit of {limit} "
            "(max_input_bytes); store the data elsewhere and enqueue a reference to it"
        )
