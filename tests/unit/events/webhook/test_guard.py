"""Webhooks go to public addresses only, however an inner one is written."""

from __future__ import annotations

import socket

import aiohttp
import pytest

from offpath.errors import InvalidArgument
from offpath.events.webhook.guard import Forbidden, Guard, checked_networks

INNER = [
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f.1",
    "0x7f000001",
    "0177.0.0.1",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.5.4",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "[fe80::1]",
    "[fd00::1]",
    "[fec0::1]",
    "127.0.0.1.",
    "0x7f.0x0.0x0.0x1",
    "localhost.",
    "db.internal.",
    "[ff02::1]",
    "localhost",
    "foo.localhost",
    "db.internal",
    "printer.local",
]


@pytest.mark.parametrize("host", INNER)
def test_an_inner_address_is_refused_when_an_endpoint_is_added(host: str) -> None:
    with pytest.raises(Forbidden):
        Guard().check_url(f"https://{host}/hooks")


ODD = [
    "\N{FULLWIDTH DIGIT ONE}27.0.0.1",
    "\N{CIRCLED DIGIT ONE}27.0.0.1",
    "\N{FULLWIDTH DIGIT ONE}0.0.0.1",
    "\N{FULLWIDTH DIGIT EIGHT}.8.8.8",
    "127\N{IDEOGRAPHIC FULL STOP}0\N{IDEOGRAPHIC FULL STOP}0\N{IDEOGRAPHIC FULL STOP}1",
    "127.0.0.1\N{VARIATION SELECTOR-16}",
    "8.8.8.\N{ARABIC-INDIC DIGIT THREE}",
    "\N{ARABIC-INDIC DIGIT THREE}.8.8.8",
    "%31%32%37.0.0.1",
    "127.0.0.%31",
    "0x7f.1.1.1.1",
    "1.2.3.4.5",
    "256.1.1.1",
    "08.8.8.8",
    "1.2.3.0x",
    "999999999999",
    "\N{CIRCLED LATIN SMALL LETTER L}ocalhost",
    "localhost\N{IDEOGRAPHIC FULL STOP}",
]


@pytest.mark.parametrize("host", ODD, ids=ascii)
def test_an_address_in_odd_digits_is_refused_when_an_endpoint_is_added(host: str) -> None:
    """Also where its network is allowed: what is posted to is written plainly."""
    with pytest.raises(Forbidden):
        Guard(private=("10.0.0.0/8",)).check_url(f"https://{host}/hooks")


@pytest.mark.parametrize(
    "host", ["b\u00fccher.example", "3com.example", "1.example", "\u4f8b\u3048.jp", "0x7f.example"]
)
def test_a_name_with_digits_or_of_another_script_is_a_name(host: str) -> None:
    assert Guard().check_url(f"https://{host}/hooks").hostname == host


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "::ffff:10.0.0.1", "fe80::1%eth0"],
)
def test_an_inner_address_is_refused_when_it_is_dialled(address: str) -> None:
    info = (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443))
    with pytest.raises(Forbidden):
        Guard().socket_factory(info)


@pytest.mark.parametrize("url", ["https://example.com/h", "https://8.8.8.8/", "https://[2606::1]/"])
def test_a_public_address_is_accepted(url: str) -> None:
    assert Guard().check_url(url).scheme == "https"


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "ftp://example.com/",
        "https://user:secret@example.com/",
        "https://8.8.8.8:22/",
    ],
)
def test_what_is_not_for_webhooks_is_refused(url: str) -> None:
    with pytest.raises(Forbidden) as caught:
        Guard().check_url(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["", "https://", "https:///x", "nonsense", "https://a b/", "https://x\\@y/", None, 5]
)
def test_what_is_no_url_is_refused(url: object) -> None:
    with pytest.raises(InvalidArgument):
        Guard().check_url(url)


def test_a_private_network_is_open_by_choice_only() -> None:
    guard = Guard(private=checked_networks(["10.0.0.0/8"]), plain_http=True)
    assert guard.check_url("http://10.1.2.3:9000/").port == 9000
    with pytest.raises(Forbidden):
        guard.check_url("http://192.168.1.1/")
    with pytest.raises(InvalidArgument):
        checked_networks(["everything"])


async def test_a_name_that_leads_inside_does_not_connect() -> None:
    """The name passes the check of its text; what it resolves to does not."""
    served: list[object] = []
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen()
    port = server.getsockname()[1]

    class Rebinding(aiohttp.abc.AbstractResolver):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
        ) -> list[aiohttp.abc.ResolveResult]:
            served.append(host)
            return [
                aiohttp.abc.ResolveResult(
                    hostname=host, host="127.0.0.1", port=port, family=family, proto=0, flags=0
                )
            ]

        async def close(self) -> None:
            return

    guard = Guard(plain_http=True, ports=frozenset({port}))
    url = f"http://hooks.example.com:{port}/"
    guard.check_url(url)
    connector = aiohttp.TCPConnector(resolver=Rebinding(), socket_factory=guard.socket_factory)
    async with aiohttp.ClientSession(connector=connector) as session:
        with pytest.raises(Forbidden):
            await session.post(url)
    server.setblocking(False)
    with pytest.raises(BlockingIOError):
        server.accept()
    server.close()
    assert served == ["hooks.example.com"]
