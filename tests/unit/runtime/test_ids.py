from typing import Any
from uuid import UUID

import pytest

from offpath.errors import InvalidArgument
from offpath.runtime.ids import derive_id, new_id, parse_id


def test_new_ids_sort_in_the_order_they_were_made() -> None:
    ids = [new_id() for _ in range(10_000)]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)
    assert all(str(UUID(one)) == one and UUID(one).version == 7 for one in ids[:100])


def test_derived_ids_repeat_and_differ() -> None:
    parent = new_id()
    children = [derive_id(parent, n) for n in range(1000)]
    assert children == [derive_id(parent, n) for n in range(1000)]
    assert len({parent, *children}) == 1001
    assert derive_id(parent, 1) != derive_id(parent, "1")
    assert derive_id(parent, 1) != derive_id(new_id(), 1)
    assert derive_id(parent.upper(), 1) == derive_id(parent, 1)


def test_derived_ids_stay_what_they_were() -> None:
    parent = "01890a5d-ac96-774b-bcce-b302099a8057"
    assert derive_id(parent, 0) == "01890a5d-ac96-83ff-8ece-f2fff562d439"
    assert derive_id(parent, "next/1") == "01890a5d-ac96-8516-9b9b-bf24f84eb5d8"


def test_derived_ids_are_uuids_beside_their_parent() -> None:
    parent = new_id()
    child = derive_id(parent, "email")
    assert str(UUID(child)) == child
    assert UUID(child).version == 8
    assert UUID(child).bytes[:6] == UUID(parent).bytes[:6]
    assert derive_id(child, 0) not in {child, parent}


def test_parse_id_gives_the_canonical_form() -> None:
    one = UUID("018f3c2a-7b1c-7000-8000-00000000000a")
    assert parse_id(one, "id") == str(one)
    assert parse_id(str(one).upper(), "id") == str(one)
    assert parse_id(one.hex, "id") == str(one)


@pytest.mark.parametrize("bad", ["", "x", "12", None, 5, "018f3c2a-7b1c-7000-8000-00000000000"])
def test_parse_id_refuses_other_things(bad: Any) -> None:
    with pytest.raises(InvalidArgument, match="job id must be a UUID"):
        parse_id(bad, "job id")
