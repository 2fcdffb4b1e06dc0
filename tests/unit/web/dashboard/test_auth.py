"""Ready-made authenticators: who is known by what."""

from __future__ import annotations

import base64

import pytest

from offpath.errors import InvalidArgument
from offpath.web import auth


def _asked(client: str | None = "10.1.2.3", **headers: str) -> auth.Asked:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return auth.Asked(method="GET", path="/", headers=named, client=client)


def test_each_holder_of_a_token_has_a_name() -> None:
    known = auth.token({"ann": "a" * 16, "bob": "b" * 16})
    assert known(_asked(authorization="Bearer " + "b" * 16)) == auth.Viewer("bob", auth.OPERATOR)
    assert known(_asked(authorization="Bearer " + "c" * 16)) is None


@pytest.mark.parametrize("given", ["short", "", "x" * 2_000])
def test_a_token_must_be_long_and_not_too_long(given: str) -> None:
    with pytest.raises(InvalidArgument, match="16 to 1024"):
        auth.token(given)


def test_a_right_that_there_is_not_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="the rights are read, payload"):
        auth.token("x" * 16, can=["everything"])  # type: ignore[list-item]


def _basic(name: str, password: str) -> auth.Asked:
    pair = base64.b64encode(f"{name}:{password}".encode()).decode()
    return _asked(authorization=f"Basic {pair}")


def test_a_name_and_its_password_are_known() -> None:
    known = auth.basic({"ann": auth.hash_password("correct horse")})
    for _ in range(2):  # the second one is remembered
        assert known(_basic("ann", "correct horse")) == auth.Viewer("ann", auth.OPERATOR)
    for asked in (_basic("ann", "wrong"), _basic("bob", "correct horse"), _asked()):
        assert known(asked) is None
    assert known(_asked(authorization="Basic %%%")) is None


def test_a_password_is_never_given_plain() -> None:
    with pytest.raises(InvalidArgument, match="hash_password"):
        auth.basic({"ann": "correct horse"})


def test_a_header_is_believed_from_its_proxy_only() -> None:
    known = auth.header("X-Forwarded-User", proxies=["10.0.0.0/8"], can=auth.VIEWER)
    assert known(_asked(x_forwarded_user="ann")) == auth.Viewer("ann", auth.VIEWER)
    for client in ("11.0.0.1", None, "testclient"):
        assert known(_asked(client=client, x_forwarded_user="ann")) is None
    assert known(_asked(x_forwarded_user=" ")) is None


@pytest.mark.parametrize("proxies", [[], ["not an address"]])
def test_a_header_without_proxies_is_refused(proxies: list[str]) -> None:
    with pytest.raises(InvalidArgument, match="proxies"):
        auth.header("x-user", proxies=proxies)


async def test_the_own_login_may_be_of_either_colour() -> None:
    async def find(asked: auth.Asked) -> auth.Viewer | None:
        return auth.Viewer("ann") if asked.headers.get("cookie") == "s=1" else None

    known = auth.session(find, login_url="/login")
    assert await known(_asked(cookie="s=1")) == auth.Viewer("ann", auth.VIEWER)
    assert await known(_asked()) is None
    plain = auth.session(lambda _: auth.Viewer("bob"))
    assert await plain(_asked()) == auth.Viewer("bob", auth.VIEWER)
