"""Ledger values and rules: money, accounts, postings, chains, and how operations are decided."""
