"""The transitions of both SQL databases: each is written once, and does no input or output."""
