"""The tasks of tests.typing.shop_service:app, for services that enqueue them.

Written by `offpath stubs tests.typing.shop_service:app`; `offpath stubs tests.typing.shop_service:app --check FILE` tells when it is stale.
"""

# fmt: off
# ruff: noqa
from __future__ import annotations

import dataclasses
import datetime
import enum
import msgspec
import typing
import offpath


class Size(enum.StrEnum):
    SMALL = 'small'
    LARGE = 'large'


class Receipt(msgspec.Struct, kw_only=True):
    number: int
    lines: int
    size: Size
    day: datetime.date | None = None


@dataclasses.dataclass(kw_only=True)
class Line:
    sku: str
    count: int = 1


@dataclasses.dataclass(kw_only=True)
class Order:
    number: int
    lines: list[Line]
    size: Size = Size.SMALL
    notes: list[str] = dataclasses.field(default_factory=list)


class Tasks:
    """``Tasks(app).NAME.enqueue(...)``: a job that the service of tests.typing.shop_service:app runs."""

    def __init__(self, app: offpath.App) -> None:
        self.anything = app.elsewhere(_anything, name='anything', tags=['a'], deadline=3600.0, unique=offpath.Unique(key='one', states=['blocked', 'queued', 'running'], period=None, policy='attach'))
        self.many = app.elsewhere(_many, name='many')
        self.shop_invoice = app.elsewhere(_shop_invoice, name='shop.invoice', queue='money', priority=3, limit=offpath.Limit('api', max_running=2, rate=offpath.Rate(500, per=60.0, algorithm='token_bucket')))
        # computed by the service, not here: unique
        self.split = app.elsewhere(_split, name='split')


_DEFAULT: typing.Any = ...  # not stored: the service's own default counts


def _anything(*args: int, **more: str) -> dict[str, tuple[int, ...]]:
    raise NotImplementedError


def _many(item: str) -> int:
    raise NotImplementedError


def _shop_invoice(order: Order, copies: int = 1, *, mode: typing.Literal['a', 'b'] = 'a') -> Receipt:
    """Write an \"invoice\"."""
    raise NotImplementedError


def _split(n: int, when: datetime.date = _DEFAULT, /) -> offpath.Plan[None, int]:
    raise NotImplementedError
