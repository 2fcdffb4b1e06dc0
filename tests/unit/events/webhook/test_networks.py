"""The list of networks that are not public, compared with the standard library's."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterator

import pytest

from offpath.events.webhook.networks import Address, is_public

NOT_PUBLIC = [
    "192.0.0.192",  # public, says Python 3.11.7
    "192.0.0.9",
    "192.88.99.1",
    "100.64.0.1",
    "169.254.169.254",
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "fe80::1",
    "fec0::1",
    "fc00::1",
    "ff02::1",
    "64:ff9b:1::1",
    "100::1",
    "2001:2::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "3fff::1",
    "5f00::1",
    "4000::1",
]
PUBLIC = ["8.8.8.8", "192.0.1.1", "192.88.98.255", "223.255.255.255", "2606:4700::1", "2a00::1"]


@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_what_no_receiver_can_have_is_not_public(text: str) -> None:
    assert not is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", PUBLIC)
def test_the_open_internet_is_public(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))


def samples() -> Iterator[Address]:
    """The edges of every /8 and of many smaller networks, and random addresses of both kinds."""
    chance = random.Random(20)
    for first in range(256):
        yield from (ipaddress.IPv4Address((first << 24) + more) for more in (0, 1, 0xFFFFFF))
    for second in range(256):
        for first in (100, 169, 172, 192, 198, 203):
            yield ipaddress.IPv4Address((first << 24) + (second << 16) + chance.randrange(65536))
    for last in range(256):
        yield ipaddress.IPv4Address((192 << 24) + last)
    for _ in range(20_000):
        yield ipaddress.IPv4Address(chance.randrange(2**32))
        yield ipaddress.IPv6Address(chance.randrange(2**128))
        yield ipaddress.IPv6Address((0x2001 << 112) + chance.randrange(2**112))


def test_nothing_is_public_that_python_holds_for_local() -> None:
    """On every Python; 3.13 has the registries of 2024."""
    wrong = [str(each) for each in samples() if is_public(each) and not each.is_global]
    assert wrong == []
