"""The commands of the economy: ``offpath economy``, ``ledger`` and ``reconcile``."""
