"""The ledger's and the economy's faults: broken requests and broken books, never a plain "no".

A declined operation is a value (``Rejected``); a fault is raised. ::

    OffpathError
    └── LedgerError                       code and retryable as the wire has them
        ├── InvalidAmount (ValueError)    MONEY.INVALID_AMOUNT
        ├── MoneyOverflow                 MONEY.OVERFLOW
        ├── CurrencyMismatch              LEDGER.CURRENCY_MISMATCH
        ├── Unbalanced                    LEDGER.UNBALANCED
        ├── UnknownAccount                LEDGER.UNKNOWN_ACCOUNT
        ├── Overdraft                     LEDGER.OVERDRAFT
        ├── Commingling                   LEDGER.COMMINGLING
        ├── ChainBroken                   CHAIN.BROKEN
        ├── Archived                      LEDGER.ARCHIVED: it is in an archive, and here no more
        ├── MalformedOperation            OP.MALFORMED
        ├── KeyReused                     OP.KEY_REUSED
        ├── OperationDeclined             OP.DECLINED: by what was to be committed with it
        ├── InvalidTransition             SAGA.INVALID_TRANSITION
        ├── Unauthorized                  AUTH.UNAUTHORIZED
        ├── InvalidSignature              AUTH.INVALID_SIGNATURE
        ├── EconomyConfigInvalid          CONFIG.INVALID
        ├── Contained                     ECONOMY.CONTAINED: it rests until an operator's word
        ├── ProviderFailed                PROVIDER.FAILURE, retryable
        ├── StoreFailed                   STORE.FAILURE, retryable
        └── Unplanned                     LEDGER.UNPLANNED, retryable: settled by the engine itself
"""

from __future__ import annotations

from typing import Final, TypeGuard

from offpath.errors import OffpathError


class LedgerError(OffpathError):
    """A fault of the ledger or of the economy. ``retryable`` may differ by instance."""

    code = "LEDGER.FAILURE"

    def __init__(self, message: str, *, retryable: bool | None = None) -> None:
        super().__init__(message)
        if retryable is not None:
            self.retryable = retryable  # type: ignore[misc]  # the class's is the usual value


class InvalidAmount(LedgerError, ValueError):
    """The amount is not one, or no operation may move it."""

    code = "MONEY.INVALID_AMOUNT"


class MoneyOverflow(LedgerError):
    """An amount does not fit 64 bits of minor units."""

    code = "MONEY.OVERFLOW"


class CurrencyMismatch(LedgerError):
    """Two currencies met in one amount, account or comparison: an error of the program."""

    code = "LEDGER.CURRENCY_MISMATCH"


class Unbalanced(LedgerError):
    """Entries of a posting do not sum to zero in a currency."""

    code = "LEDGER.UNBALANCED"


class UnknownAccount(LedgerError):
    """An id that is not an account's."""

    code = "LEDGER.UNKNOWN_ACCOUNT"


class Overdraft(LedgerError):
    """A guarded account would go below zero."""

    code = "LEDGER.OVERDRAFT"


class Commingling(LedgerError):
    """The platform would take what is owed to users or sellers: nothing was posted."""

    code = "LEDGER.COMMINGLING"


class ChainBroken(LedgerError):
    """The stored rows do not hash to what was sealed: they were altered outside of the ledger."""

    code = "CHAIN.BROKEN"


class Archived(LedgerError):
    """A posting was archived and removed from the ledger; the message names the archive."""

    code = "LEDGER.ARCHIVED"


class MalformedOperation(LedgerError, ValueError):
    """An operation that cannot be meant so; the message says what to give instead."""

    code = "OP.MALFORMED"


class KeyReused(LedgerError):
    """The idempotency key belongs to another operation: the same key was sent with other values."""

    code = "OP.KEY_REUSED"


class OperationDeclined(LedgerError):
    """The effects that were to be committed with an operation were not: the operation was declined.

    ``reason`` is that of ``Rejected``. Its fields tell who has how much: they go to nobody here.
    """

    code = "OP.DECLINED"

    def __init__(self, message: str, *, reason: str = "", retryable: bool | None = None) -> None:
        super().__init__(message, retryable=retryable)
        self.reason = reason


class InvalidTransition(LedgerError):
    """A payout is in a state from which this step does not lead on."""

    code = "SAGA.INVALID_TRANSITION"


class Unauthorized(LedgerError):
    """The actor may not do this."""

    code = "AUTH.UNAUTHORIZED"


class InvalidSignature(LedgerError):
    """A signature does not belong to what it came with."""

    code = "AUTH.INVALID_SIGNATURE"


class EconomyConfigInvalid(LedgerError, ValueError):
    """Settings, rates or ports of an economy that cannot be; the message lists all of it."""

    code = "CONFIG.INVALID"


class ProviderFailed(LedgerError):
    """A port of the host's (provider, directory, feed) failed."""

    code = "PROVIDER.FAILURE"
    retryable = True


class Contained(LedgerError):
    """A finding is contained: what was asked for rests until an operator has it go on."""

    code = "ECONOMY.CONTAINED"


class StoreFailed(LedgerError):
    """The store failed beneath an operation; ``__cause__`` has what it raised."""

    code = "STORE.FAILURE"
    retryable = True


class Unplanned(LedgerError):
    """A decision needs what was not loaded for it, since it came to be a moment ago.

    Whoever submitted the operation plans it anew and submits it again; users never see it.
    """

    code = "LEDGER.UNPLANNED"
    retryable = True


_FINAL: Final = (
    Archived,
    OperationDeclined,
    KeyReused,
    MalformedOperation,
    InvalidAmount,
    MoneyOverflow,
    CurrencyMismatch,
    Unbalanced,
    UnknownAccount,
    Unauthorized,
)


def beyond_retry(error: BaseException | None) -> bool:
    """True if the same operation could only end so again: it cannot be meant, or was answered no.

    An overdraft is not: the account may be filled by then.
    """
    return isinstance(error, _FINAL)


def another_time(error: BaseException | None) -> TypeGuard[LedgerError]:
    """True if it is a fault of the ledger that the same operation may not meet again."""
    return isinstance(error, LedgerError) and not beyond_retry(error)
