"""Defining tasks and making jobs: everything wrong is refused before anything is written."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from offpath.errors import (
    DuplicateTask,
    InvalidArgument,
    InvalidInput,
    TaskError,
    TooLarge,
    UnknownTask,
    UnsupportedType,
)
from offpath.jobs.define.definition import TaskSettings, takes_context
from offpath.jobs.define.registry import Registry
from offpath.jobs.define.task import Task, define
from offpath.jobs.handler.context import Context
from offpath.jobs.values.group_codecs import GroupCodecs
from offpath.jobs.values.job import Job
from offpath.model.job import UniquePolicy
from offpath.model.option_checks import checked
from offpath.model.options import OptionLevel, Options, Unique, decode_run
from offpath.model.retry import Backoff, BackoffKind, RetryOptions, RetryPolicy
from offpath.model.unsent import unsent
from offpath.runtime.codec import JsonCodec
from offpath.runtime.ids import new_id

if TYPE_CHECKING:
    import offpath

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@dataclass
class Order:
    at: datetime
    total: Decimal
    tags: set[str]


class Opaque:
    pass


class Outbox:
    """Stands for the app: keeps what is sent."""

    max_input_bytes = 1000

    def __init__(self) -> None:
        self.sent: list[tuple[list[Job[Any, Any]], object]] = []

    def new_id(self) -> str:
        return new_id()

    async def send(
        self, jobs: Sequence[Job[Any, Any]], within: object, *, inline: bool | None = None
    ) -> list[Any]:
        self.sent.append((list(jobs), within))
        return list(jobs)

    def handle(
        self,
        job_id: str,
        decode: Callable[[str | None], Any],
        decode_group: Callable[[str | None], Any] | None = None,
    ) -> Any:
        return job_id


@pytest.fixture
def outbox() -> Outbox:
    return Outbox()


def task_of(
    fn: Callable[..., Any], app: Options | None = None, **settings: Any
) -> Task[..., Any, Any]:
    typed: TaskSettings = settings  # type: ignore[assignment]
    return define(fn, typed, checked(app or Options()), GroupCodecs(JsonCodec(), {}), Outbox())


def add(a: int, b: int = 0) -> int:
    return a + b


async def fetch(ctx: Context, url: str) -> bytes:
    return url.encode()


# -- definition --------------------------------------------------------------------------------


def test_a_task_stays_the_function_it_is_on() -> None:
    task = task_of(add)
    assert task(1, b=2) == 3
    assert (task.name, task.__name__, task.__doc__) == ("add", "add", add.__doc__)
    assert (task.is_async, task.takes_context) == (False, False)


async def test_a_task_may_be_async_and_take_the_context() -> None:
    task = task_of(fetch)
    assert (task.is_async, task.takes_context) == (True, True)
    assert await task(None, "x") == b"x"


def test_the_name_is_settable_and_never_a_path() -> None:
    assert task_of(add, name="math.add").name == "math.add"
    assert "." not in task_of(add).name


@pytest.mark.parametrize("name", ["a\0b", "x" * 201, "a\n", 5])
def test_names_are_checked(name: object) -> None:
    with pytest.raises(InvalidArgument):
        task_of(add, name=name)


def test_two_tasks_of_one_name_are_refused_naming_both_places() -> None:
    registry: Registry[Task[..., Any, Any]] = Registry()
    registry.add(task_of(add))
    with pytest.raises(DuplicateTask) as caught:
        registry.add(task_of(lambda: None, name="add"))
    assert str(caught.value).count(__file__) == 2


def test_unknown_names_list_near_ones() -> None:
    registry: Registry[Task[..., Any, Any]] = Registry()
    with pytest.raises(UnknownTask, match="imported"):
        registry.named("ad")
    registry.add(task_of(add))
    registry.add(task_of(add, name="zebra"))
    with pytest.raises(UnknownTask, match="did you mean 'add'"):
        registry.named("ad")
    with pytest.raises(LookupError, match="'add', 'zebra'"):
        registry.named("completely different")
    assert list(registry) == ["add", "zebra"]
    assert registry.get("nothing") is None


def generator() -> Any:
    yield 1


async def async_generator() -> Any:
    yield 1


@pytest.mark.parametrize("unfit", [generator, async_generator, staticmethod(add), int, 5, None])
def test_what_cannot_be_a_task_is_refused(unfit: Any) -> None:
    with pytest.raises(TaskError):
        task_of(unfit)


def test_types_that_cannot_be_stored_are_refused_at_definition() -> None:
    def handler(value: Opaque) -> None: ...

    with pytest.raises(UnsupportedType, match="value"):
        task_of(handler)


@pytest.mark.parametrize("concurrency", [0, -1, 1.5, True])
def test_concurrency_is_checked(concurrency: object) -> None:
    with pytest.raises(InvalidArgument):
        task_of(add, concurrency=concurrency)


def test_the_context_is_found_by_its_annotation_only() -> None:
    def first_is_plain(ctx: int) -> None: ...
    def unannotated(ctx) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001
    def imported_for_types_only(ctx: offpath.Context) -> None: ...
    def quoted(ctx: "Context", a: int) -> None: ...  # noqa: UP037
    def second(a: int, ctx: Context) -> None: ...
    def keyword(*, ctx: Context) -> None: ...

    assert not takes_context(first_is_plain)
    assert not takes_context(unannotated)
    assert takes_context(imported_for_types_only)
    assert takes_context(quoted)
    assert not takes_context(second)
    assert not takes_context(keyword)
    assert not takes_context(lambda: None)


def test_parameters_may_have_any_name() -> None:
    def handler(task: int, id: int, args: int, kwargs: int, attempt: int, group: int) -> None: ...  # noqa: A002

    names = ["task", "id", "args", "kwargs", "attempt", "group"]
    values = {name: number for number, name in enumerate(names)}
    task = task_of(handler)
    assert task.inputs.decode(unsent(task.job(**values)).new.input) == (tuple(range(6)), {})

    def open_ended(**kwargs: int) -> None: ...

    strange: dict[str, Any] = {
        "self": 1,
        "ctx": 2,
        "name": 3,
        "options": 4,
        "__class__": 5,
        "within": 6,
    }
    task = task_of(open_ended)
    assert task.inputs.decode(unsent(task.job(**strange)).new.input) == ((), strange)


# -- jobs --------------------------------------------------------------------------------------


def test_a_job_has_an_id_before_it_is_sent() -> None:
    one, two = task_of(add).job(1), task_of(add).job(1)
    assert uuid.UUID(one.id).version == 7
    assert one.id < two.id
    assert one.task == "add"
    assert unsent(one).new.fingerprint == unsent(two).new.fingerprint
    assert unsent(one).new.fingerprint != unsent(task_of(add).job(2)).new.fingerprint


def test_the_input_is_checked_like_a_call() -> None:
    task = task_of(add)
    calls: list[Callable[[], Any]] = [
        task.job,
        lambda: task.job("1"),
        lambda: task.job(1, c=2),
        lambda: task.job(1, 2, 3),
        lambda: task.job(1.5),
        lambda: task.job(None),
    ]
    for call in calls:
        with pytest.raises(InvalidInput):
            call()


def test_rich_inputs_come_back() -> None:
    def handler(order: Order, key: uuid.UUID, raw: bytes) -> None: ...

    task = task_of(handler)
    arguments = (Order(NOON, Decimal("1.10"), {"a"}), uuid.uuid4(), b"\0\xff")
    assert task.inputs.decode(unsent(task.job(*arguments)).new.input)[0] == arguments


def test_neither_job_nor_task_shows_its_input() -> None:
    def handler(secret: str) -> None: ...

    task = task_of(handler)
    assert "s3cr3t" not in repr(task.job("s3cr3t"))
    assert "s3cr3t" not in repr(task)


def test_an_oversize_input_is_refused_naming_the_limit() -> None:
    def handler(text: str) -> None: ...

    task = task_of(handler)
    with pytest.raises(TooLarge, match=r"1012 bytes.*1000"):
        task.job("x" * 1001)
    with pytest.raises(TooLarge):
        task.job("é" * 600)
    task.job("x" * 900)


def test_an_input_that_cannot_be_written_is_refused() -> None:
    def handler(text: str) -> None: ...

    with pytest.raises(InvalidInput):
        task_of(handler).job("\ud800")


def test_options_come_from_queue_time_then_input_then_task_then_app() -> None:
    task = task_of(
        add,
        app=Options(priority=1, queue="app", timeout=1, retry=RetryOptions(cap=9)),
        priority=2,
        queue="task",
        options=lambda a, b=0: Options(priority=3 if a else None, tags=[f"b{b}"]),
        retry=RetryOptions(base=2),
    )
    new = unsent(task.options(priority=4, retry=7).job(1, b=5)).new
    assert (new.priority, new.queue, new.tags) == (4, "task", ("b5",))
    assert unsent(task.job(1)).new.priority == 3
    assert unsent(task.job(0)).new.priority == 2
    run = decode_run(new.options)
    assert run.retry == RetryPolicy(attempts=7, base=2.0, cap=9.0)
    assert run.timeout == 1.0


def test_computed_options_are_checked_too() -> None:
    with pytest.raises(InvalidArgument):
        task_of(add, options=lambda a, b=0: Options(priority=1.5)).job(1)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"offpath\.Options"):
        task_of(add, options=lambda a, b=0: {"priority": 1}).job(1)
    assert unsent(task_of(add, options=lambda a, b=0: None).job(1)).new.priority == 0


def test_a_unique_key_is_constant_or_computed_or_given() -> None:
    def key_of(task: Task[..., Any, Any], *args: Any, **options: Any) -> str | None:
        new = unsent(task.options(**options).job(*args)).new
        return new.unique.key if new.unique else None

    assert key_of(task_of(add, unique="one"), 1) == "add:one"
    computed = task_of(add, unique=lambda a, b=0: None if a == 0 else f"n{a}")
    assert key_of(computed, 7) == "add:n7"
    assert key_of(computed, 0) is None
    assert key_of(computed, 7, unique="mine") == "add:mine"
    assert key_of(computed, 7, unique=False) is None
    rich = task_of(add, unique=lambda a, b=0: Unique(key="k", policy="replace"))
    claim = unsent(rich.job(1)).new.unique
    assert claim is not None
    assert claim.policy is UniquePolicy.REPLACE


def test_a_custom_backoff_stays_with_the_task() -> None:
    task = task_of(add, retry=Backoff.custom(lambda n: n))
    assert task.backoff is not None
    assert decode_run(unsent(task.job(1)).new.options).retry.kind is BackoffKind.CUSTOM
    with pytest.raises(InvalidArgument):
        task.options(retry=Backoff.custom(lambda n: n))
    assert task_of(add, app=Options(retry=Backoff.custom(lambda n: n))).backoff is not None


def test_queue_time_options_add_up() -> None:
    later = task_of(add).options(delay=5).options(priority=2)
    new = unsent(later.job(1)).new
    assert (new.delay, new.priority) == (5.0, 2)
    assert unsent(later.options(delay=1).job(1)).new.delay == 1.0


def test_times_reach_the_job() -> None:
    new = unsent(task_of(add).options(run_at=NOON, deadline=timedelta(minutes=1)).job(1)).new
    assert (new.run_at, new.deadline_in, new.deadline) == (NOON, 60.0, None)
    assert unsent(task_of(add, deadline=NOON).options(deadline=5).job(1)).new.deadline == NOON


def test_the_id_may_be_the_callers() -> None:
    mine = str(uuid.uuid4())
    assert task_of(add).options(id=mine).job(1).id == mine
    assert task_of(add).options(id=mine.upper()).job(1).id == mine
    with pytest.raises(InvalidArgument):
        task_of(add).options(id="7")


def test_misspelt_options_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"no option 'dealy'; did you mean 'delay'\?"):
        task_of(add).options(dealy=5)  # type: ignore[call-arg]
    with pytest.raises(TaskError, match=r"'qeue'.*'queue'"):
        task_of(add, qeue="x")


async def test_enqueue_sends_one_job(outbox: Outbox) -> None:
    task = define(add, {}, OptionLevel(), GroupCodecs(JsonCodec(), {}), outbox)
    connection = object()
    await task.enqueue(1, b=2)
    await task.options(within=connection).enqueue(3)
    assert [within for _, within in outbox.sent] == [None, connection]
    assert [task.inputs.decode(unsent(jobs[0]).new.input)[1] for jobs, _ in outbox.sent] == [
        {"a": 1, "b": 2},
        {"a": 3},
    ]


def test_a_job_cannot_carry_a_connection() -> None:
    with pytest.raises(InvalidArgument, match="within"):
        task_of(add).options(within=object()).job(1)


def test_a_handle_can_be_had_again() -> None:
    job_id = new_id()
    handle: Any = task_of(add).handle(job_id.upper())
    assert handle == job_id
    with pytest.raises(InvalidArgument):
        task_of(add).handle("nonsense")


class Mailer:
    """A class with a handler in it."""

    def send(self, to: str) -> str:
        return to

    @classmethod
    def sent(cls, to: str) -> str:
        return to

    def __call__(self, to: str) -> str:
        return to


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda to: to, r"a lambda has no name.*app\.task\(name="),
        (Mailer(), r"an object of Mailer has no name"),
        (Mailer.send, r"Mailer\.send is a method: `self` would be an argument"),
    ],
)
def test_what_no_worker_could_find_or_call_is_refused_where_it_is_defined(
    function: Any, said: str
) -> None:
    with pytest.raises(TaskError, match=said):
        task_of(function)


@pytest.mark.parametrize("function", [lambda to: to, Mailer(), Mailer().send, Mailer.sent])
def test_with_a_name_it_is_a_task(function: Any) -> None:
    assert task_of(function, name="send")("ann") == "ann"


def test_a_function_in_a_function_is_found_by_its_name() -> None:
    def inner(to: str) -> str:
        return to

    assert task_of(inner).name == "inner"
