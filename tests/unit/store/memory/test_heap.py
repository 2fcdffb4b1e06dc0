"""The priority queue under the lanes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from offpath.store.memory.indexes import LazyHeap

names = st.sampled_from([f"n{n}" for n in range(12)])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("push"), names, st.integers(-3, 3)),
        st.tuples(st.just("remove"), names, st.just(0)),
        st.tuples(st.just("pop"), st.just(""), st.just(0)),
    ),
    max_size=300,
)


@given(steps)
def test_it_is_a_sorted_dict(given_steps: list[tuple[str, str, int]]) -> None:
    heap: LazyHeap[int] = LazyHeap()
    model: dict[str, int] = {}
    for what, name, rank in given_steps:
        if what == "push":
            heap.push(name, rank)
            model[name] = rank
        elif what == "remove":
            assert heap.remove(name) is (model.pop(name, None) is not None)
        elif (first := heap.first()) is not None:
            heap.remove(first[1])
            assert model.pop(first[1]) == first[0]
        first = heap.first()
        assert (first[0] if first else None) == min(model.values(), default=None)
        assert first is None or model[first[1]] == first[0]
        assert len(heap) == len(model)
        assert set(heap) == set(model)


def test_equal_ranks_come_out_in_the_order_they_went_in() -> None:
    heap: LazyHeap[int] = LazyHeap()
    for name in ("b", "a", "c"):
        heap.push(name, 1)
    got = []
    while first := heap.first():
        got.append(first[1])
        heap.remove(first[1])
    assert got == ["b", "a", "c"]


def test_what_is_taken_back_at_the_bottom_leaves_no_trace() -> None:
    heap: LazyHeap[int] = LazyHeap()
    heap.push("top", 0)
    for n in range(20_000):
        heap.push(f"n{n}", 1 + n)
        heap.remove(f"n{n}")
    assert len(heap._entries) < 100
    assert heap.first() == (0, "top")


def test_a_name_that_moves_often_leaves_no_trace() -> None:
    heap: LazyHeap[int] = LazyHeap()
    heap.push("top", 0)
    for n in range(20_000):
        heap.push("mover", 1 + n)
    assert len(heap._entries) < 100
    heap.remove("top")
    assert heap.first() == (20_000, "mover")
