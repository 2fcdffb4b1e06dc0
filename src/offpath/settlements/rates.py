"""Rates of settlement runs: rebates, cashback and lossback of what players did."""

from offpath.model.settlement_rates import Cashback, Lossback, PlayerActivity, Rebate, Share

__all__ = [
    "Cashback",
    "Lossback",
    "PlayerActivity",
    "Rebate",
    "Share",
]
