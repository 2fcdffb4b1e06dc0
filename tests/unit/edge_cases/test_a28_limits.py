"""Edge cases A.28, by number: a limit of each group beside a global one."""

from __future__ import annotations

from collections import Counter

from offpath import Limit, Rate
from tests.unit.edge_cases.bench import Bench


async def _ready(bench: Bench, *limits: list[Limit] | Limit | None) -> list[int]:
    """Which of the jobs with these limits may start now, by their order."""

    @bench.app.task
    def work(number: int) -> None: ...

    jobs = [
        work.options(limit=limit).job(number) if limit else work.job(number)
        for number, limit in enumerate(limits)
    ]
    handles = await bench.app.enqueue(jobs)
    await bench.app.store().admit(limit=100)
    records = await bench.app.store().get([handle.id for handle in handles])
    states = {record.id: record.state.value for record in records}
    return [at for at, handle in enumerate(handles) if states[handle.id] == "queued"]


def _group(name: str, most: int = 1) -> Limit:
    return Limit(f"group:{name}", max_running=most)


def _all(most: int) -> Limit:
    return Limit("global", max_running=most)


async def test_a28_104_one_of_a_group_runs(bench: Bench) -> None:
    both = [_all(9), _group("A")]
    assert await _ready(bench, both, both) == [0]


async def test_a28_105_one_of_each_group_runs(bench: Bench) -> None:
    a, b = [_all(9), _group("A")], [_all(9), _group("B")]
    assert await _ready(bench, a, a, b) == [0, 2]


async def test_a28_106_a_task_has_a_group_limit_without_a_default(bench: Bench) -> None:
    started: Counter[str] = Counter()

    @bench.app.task(limit=lambda group: [_group(group), _all(9)])
    def grouped(group: str) -> None:
        started[group] += 1

    await bench.app.enqueue([grouped.job("A"), grouped.job("A"), grouped.job("B")])
    assert (await bench.app.store().admit(limit=9)).jobs == 2
    await bench.app.worker().run_until_idle()
    assert started == {"A": 2, "B": 1}


async def test_a28_107_the_global_limit_holds_beside_those_of_groups(bench: Bench) -> None:
    a, b = [_all(1), _group("A", 10)], [_all(1), _group("B", 10)]
    assert await _ready(bench, a, b, a, b) == [0]


async def test_a28_108_109_without_a_group_only_the_global_limit_holds(bench: Bench) -> None:
    assert await _ready(bench, _all(2), [_all(2), _group("A")], _all(2), None) == [0, 1, 3]


async def test_a28_110_each_limit_has_its_own_algorithm(bench: Bench) -> None:
    window = Limit("global", rate=Rate(3, per=60, algorithm="fixed_window"))
    bucket = Limit("group:A", rate=Rate(1, per=60))
    both = [window, bucket]
    assert await _ready(bench, both, both, window, window, window) == [0, 2, 3]
