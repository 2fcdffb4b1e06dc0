"""The ambient world, injectable: clock, ids, codec, metrics, log, loop, threads."""
