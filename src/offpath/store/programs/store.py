"""The methods that both SQL stores have, each the one program that it runs."""

from __future__ import annotations

from typing import Final

from offpath.store.programs import (
    actions,
    browse,
    endpoints,
    events,
    flow,
    gates,
    groups,
    health,
    jobs,
    ledger_reads,
    ledger_upkeep,
    letters,
    messages,
    reads,
    redrives,
    routers,
    runs,
    schedules,
    signals,
    stats,
    steps,
    suspects,
    workers,
)
from offpath.store.programs.dialect import READS, WRITES, How, Runner, transition

_ASKED: Final = How(reads=True, call=True)
"""A read that a request waits for."""
_WALKED: Final = How(reads=True, call=True, unpinned=True)
"""The same, which is planned by its values: what it walks depends on them."""


class SqlLedgerReads:
    """Reads of a ledger, of the present or of the one moment that the runner sees."""

    runner: Runner

    ledger_accounts = transition(ledger_reads.accounts, _ASKED)
    ledger_debts = transition(ledger_reads.debts, _ASKED)
    ledger_links = transition(ledger_reads.links, _ASKED)
    ledger_walk = transition(ledger_reads.walk, _ASKED)
    ledger_since = transition(ledger_reads.since, _ASKED)
    ledger_tails = transition(ledger_reads.tails, _ASKED)
    ledger_postings = transition(ledger_reads.postings, _ASKED)
    ledger_sides = transition(ledger_reads.sides, _ASKED)
    ledger_bare = transition(ledger_reads.bare, _ASKED)
    ledger_key = transition(ledger_reads.key, _ASKED)
    # one pass over the accounts, where a pinned plan would look up each of them
    ledger_totals = transition(ledger_reads.totals, How(reads=True, unpinned=True))
    ledger_last = transition(ledger_reads.last, _ASKED)
    ledger_sums = transition(ledger_reads.sums, _ASKED)
    ledger_counts = transition(ledger_reads.counts, _ASKED)
    ledger_checkpoints = transition(ledger_reads.checkpoints, _ASKED)
    ledger_leaves = transition(ledger_reads.leaves, _ASKED)
    ledger_moved = transition(ledger_reads.moved, _ASKED)
    ledger_trims = transition(ledger_reads.trims, _ASKED)
    ledger_standings = transition(ledger_reads.standings, _ASKED)
    ledger_retired = transition(ledger_reads.retired, _ASKED)


class SqlStore(SqlLedgerReads):
    """The transitions that are the same program in every SQL database."""

    # -- schedules -------------------------------------------------------------------------

    put_schedule = transition(schedules.put)
    due_schedules = transition(schedules.due, READS)
    pause_schedule = transition(schedules.pause)
    delete_schedule = transition(schedules.delete)
    fire = transition(schedules.fire)
    trigger_schedule = transition(schedules.trigger)
    occurrences = transition(schedules.occurrences, READS)
    prune_occurrences = transition(schedules.prune)

    # -- declarations ----------------------------------------------------------------------

    declare = transition(health.declare)

    # -- actions of operators --------------------------------------------------------------

    put_action = transition(actions.put)
    step_action = transition(actions.step)
    take_action = transition(actions.take)
    has_late_action = transition(actions.has_late, READS)
    stop_action = transition(actions.stop)
    prune_actions = transition(actions.prune)

    # -- stats -----------------------------------------------------------------------------

    # A power cut may lose the last row: that is a gap in a chart.
    put_stats = transition(stats.put, How(relaxed=True))
    fold_stats = transition(stats.fold)
    prune_stats = transition(stats.prune)
    # As stats: nothing is decided by what a run has reported.
    put_run = transition(runs.put, How(relaxed=True))

    # -- jobs that exist -------------------------------------------------------------------

    begin = transition(suspects.begin)
    cancel = transition(jobs.cancel)
    redrive = transition(redrives.redrive)
    amend = transition(jobs.amend)
    delete = transition(jobs.delete)
    cancel_groups = transition(jobs.cancel_groups)
    close_groups = transition(jobs.close_groups, peek=jobs.nothing_to_close)

    # -- messages --------------------------------------------------------------------------

    find_messages = transition(messages.find, How(reads=True, unpinned=True))
    revive_messages = transition(messages.revive)
    delete_messages = transition(messages.delete)
    message_backlog = transition(messages.backlog, READS)

    # -- the log and its routers -----------------------------------------------------------

    find_events = transition(events.found, READS)
    read_events = transition(events.read, READS)
    trim_log = transition(events.trim)
    table_columns = transition(routers.table_columns, READS)
    read_table = transition(routers.read_table, READS)
    set_gate = transition(routers.set_gate)
    set_route = transition(routers.set_route)
    lease_cursor = transition(routers.lease_cursor)
    advance = transition(routers.advance)
    release_cursor = transition(routers.release_cursor)
    move_cursor = transition(routers.move_cursor)
    attempts = transition(letters.attempts, READS)
    attempted = transition(letters.attempted, READS)
    router_standing = transition(letters.standing, READS)
    redoable = transition(letters.redoable, READS)
    record_redo = transition(letters.redo)
    record_replay = transition(letters.replay)
    resolve_letter = transition(letters.resolve)

    # -- endpoints -------------------------------------------------------------------------

    put_endpoint = transition(endpoints.put)
    set_endpoint = transition(endpoints.switch)
    note_endpoint = transition(endpoints.note)
    delete_endpoint = transition(endpoints.delete)
    put_posts = transition(endpoints.put_posts, How(relaxed=True))
    posts = transition(endpoints.posts_to, READS)

    # -- findings and health ---------------------------------------------------------------

    record_finding = transition(health.record_finding)
    end_finding = transition(health.end_finding)
    accept_finding = transition(health.accept_finding)
    deaths = transition(health.deaths, READS)
    limit_holders = transition(health.limit_holders, READS)
    router_lags = transition(health.router_lags, READS)

    # -- looking at jobs -------------------------------------------------------------------

    get = transition(reads.get, _ASKED)
    states = transition(reads.states, _ASKED)
    find = transition(reads.find, How(reads=True, unpinned=True))
    count = transition(reads.count, How(reads=True, unpinned=True))
    backlog = transition(reads.backlog, READS)

    # -- lists for people ------------------------------------------------------------------

    look_at_messages = transition(messages.look, _WALKED)
    faults = transition(browse.faults, _WALKED)
    step_records = transition(steps.records, _ASKED)
    dead_tally = transition(browse.dead_tally, _ASKED)
    graph = transition(browse.graph, _ASKED)
    browse_groups = transition(browse.browse_groups, _WALKED)
    open_gates = transition(browse.open_gates, _ASKED)
    pending_signals = transition(browse.pending_signals, _ASKED)
    drop_signals = transition(browse.drop_signals)
    next_due = transition(browse.next_due, _ASKED)
    newest_events = transition(browse.newest_events, _WALKED)
    ids_beginning = transition(browse.ids_beginning, _ASKED)

    # -- limits ----------------------------------------------------------------------------

    limits = transition(flow.limits, READS)
    count_held = transition(flow.count_held, READS)

    # -- pauses ----------------------------------------------------------------------------

    pause_queue = transition(flow.pause)
    resume_queue = transition(flow.resume)
    queues = transition(flow.queues, How(reads=True, call=True, unpinned=True))

    # -- workers and claims ----------------------------------------------------------------

    ask_worker = transition(workers.ask_worker)
    answer_worker = transition(workers.answer_worker)
    worker_desk = transition(workers.desk, READS)
    claim = transition(workers.claim)
    release_claim = transition(workers.release_claim)

    # -- steps, signals, undo --------------------------------------------------------------

    # The next report of the job replaces it.
    progress = transition(steps.progress, How(relaxed=True))
    put_step = transition(steps.put)
    # The id of a signal makes a repeat harmless.
    send_signal = transition(signals.send, How(call=True))
    take_signal = transition(signals.take)
    put_undo = transition(steps.put_undo)
    undoing = transition(steps.undoing, READS)
    compensate = transition(steps.compensate)

    # -- ledger ----------------------------------------------------------------------------

    lease_sides = transition(ledger_upkeep.lease_sides, peek=ledger_upkeep.nothing_due)
    save_checkpoint = transition(ledger_upkeep.save_checkpoint)
    keep_postings = transition(ledger_upkeep.keep_postings)
    begin_trim = transition(ledger_upkeep.begin_trim)
    trim_postings = transition(ledger_upkeep.trim_postings)

    async def prune_ledger(
        self, *, attempts_before: int, keys_before: int | None, limit: int
    ) -> int:
        """Remove old attempts and keys: two transactions, since looking for them is the work."""
        gone = await self.runner.run(
            lambda d: ledger_upkeep.old(d, attempts_before, keys_before, limit), READS
        )
        if gone is None:
            return 0
        return await self.runner.run(lambda d: ledger_upkeep.prune(d, gone), WRITES)

    # -- last, since these are the names of modules too: above here they mean the module ----

    actions = transition(actions.listed, READS)
    browse = transition(browse.browse, _WALKED)
    declarations = transition(health.declarations, READS)
    watched = transition(gates.watched, _ASKED)
    gates = transition(gates.listed, _ASKED)
    groups = transition(groups.listed, _ASKED)
    schedules = transition(schedules.listed, _ASKED)
    endpoints = transition(endpoints.listed, READS)
    routers = transition(routers.listed, READS)
    letters = transition(letters.listed, READS)
    findings = transition(health.findings, READS)
    signals = transition(workers.signals, READS)
    runs = transition(runs.listed, _WALKED)
    stats = transition(stats.listed, _WALKED)
    steps = transition(steps.recorded, READS)
    workers = transition(workers.listed, _ASKED)
