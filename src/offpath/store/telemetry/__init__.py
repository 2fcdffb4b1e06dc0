"""The meaning of a store's answers: for metrics, for the observers of jobs, and for the log.

``moves`` and ``message_moves`` are pure: from what was asked and answered to what went from where
to where. ``jobs``, ``messages`` and ``effects`` tell that to a :class:`Telemetry`. The table in
``offpath.store.seam`` says which function goes with which method of the store.
"""
