"""The keys that commands of the ledger sign with, and verify with."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from offpath.cli.frame import option_group
from offpath.errors import InvalidArgument

if TYPE_CHECKING:
    from offpath.economy.ledger.signatures import Ed25519Signer, SealVerifier

SECRET = "OFFPATH_SIGNING_SECRET"  # noqa: S105 - the variable's name
PRIOR = "OFFPATH_SIGNING_SECRETS_PRIOR"


def keys_given(public_keys: tuple[str, ...]) -> SealVerifier:
    """The keys that are believed: those given, or those of the secrets of the environment."""
    from offpath.economy.ledger.signatures import PublicKeys

    if public_keys:
        return PublicKeys(*public_keys)
    return signer_given(or_else=", or give the --public-key of the one that signed them")


def signer_given(or_else: str = "") -> Ed25519Signer:
    """The signer of the secrets of the environment. Raises ``InvalidArgument`` without one."""
    from offpath.economy.ledger.signatures import Ed25519Signer

    secret = os.environ.get(SECRET, "")
    if not secret:
        what = "the secret that checkpoints are signed with (hex)"
        raise InvalidArgument(f"set {SECRET} to {what}{or_else}")
    prior = os.environ.get(PRIOR, "")
    return Ed25519Signer(secret, [one.strip() for one in prior.split(",") if one.strip()])


keys_option = option_group(
    "keys",
    keys_given,
    click.option(
        "--public-key",
        "public_keys",
        metavar="HEX",
        multiple=True,
        help="The key of one who may have signed; may be repeated. Without it: the secrets in "
        f"{SECRET} and {PRIOR}.",
    ),
)
