"""The credits ledger: operations, checkpoints and proofs. Users import from ``offpath.economy``."""
