-- Whoever writes a row by hand is refused what no worker can read.
--
-- SQLite adds a check to a table only with a column: each gets one that is computed, so that no row
-- is longer for it. An update looks at the checks of the columns that it sets and at no others. What the
-- store keeps as it comes (inputs, options, results, payloads, headers) is not looked at: who takes it reads
-- it anyway.

-- First the rows that these rules would refuse are mended, as Postgres mends them. A job or a message
-- that has not ended becomes a dead letter, with what stood there kept: a message at once, a job when
-- it is taken, by the object in "dependents", which no worker can read.

-- Positions near the largest number there is: behind it SQLite has no next one.
update offpath_failure set job = moved.to_seq
from (
    select
        seq,
        row_number() over (order by enqueued_at, seq) + coalesce(
            (select max(job.seq) from offpath_job as job where job.seq < 4611686018427387904), 0
        ) as to_seq
    from offpath_job where seq >= 4611686018427387904
) as moved
where offpath_failure.job = moved.seq;

update offpath_job set seq = moved.to_seq
from (
    select
        seq,
        row_number() over (order by enqueued_at, seq) + coalesce(
            (select max(known.seq) from offpath_job as known where known.seq < 4611686018427387904), 0
        ) as to_seq
    from offpath_job where seq >= 4611686018427387904
) as moved
where offpath_job.seq = moved.seq;

update offpath_failure set seq = moved.to_seq
from (
    select
        seq,
        row_number() over (order by job, seq) + coalesce(
            (select max(known.seq) from offpath_failure as known where known.seq < 4611686018427387904), 0
        ) as to_seq
    from offpath_failure where seq >= 4611686018427387904
) as moved
where offpath_failure.seq = moved.seq;

update offpath_message set position = moved.to_position
from (
    select
        position,
        row_number() over (order by created_at, position) + coalesce(
            (select max(known.position) from offpath_message as known where known.position < 4611686018427387904), 0
        ) as to_position
    from offpath_message where position >= 4611686018427387904
) as moved
where offpath_message.position = moved.position;

update offpath_log set position = moved.to_position
from (
    select
        position,
        row_number() over (order by at, position) + coalesce(
            (select max(known.position) from offpath_log as known where known.position < 4611686018427387904), 0
        ) as to_position
    from offpath_log where position >= 4611686018427387904
) as moved
where offpath_log.position = moved.position;

update offpath_signal set position = moved.to_position
from (
    select
        position,
        row_number() over (order by sent_at, position) + coalesce(
            (select max(known.position) from offpath_signal as known where known.position < 4611686018427387904), 0
        ) as to_position
    from offpath_signal where position >= 4611686018427387904
) as moved
where offpath_signal.position = moved.position;

update offpath_step set position = moved.to_position
from (
    select
        position,
        row_number() over (order by job, position) + coalesce(
            (select max(known.position) from offpath_step as known where known.position < 4611686018427387904), 0
        ) as to_position
    from offpath_step where position >= 4611686018427387904
) as moved
where offpath_step.position = moved.position;

update offpath_cursor set
    position = min(position, coalesce((select max(log.position) from offpath_log as log), 0)),
    start = min(start, coalesce((select max(log.position) from offpath_log as log), 0))
where position >= 4611686018427387904 or start >= 4611686018427387904;

update sqlite_sequence set seq = max(
    coalesce((select max(log.position) from offpath_log as log), 0),
    coalesce((select max(each.position) from offpath_cursor as each), 0)
)
where name = 'offpath_log' and seq >= 4611686018427387904;

update offpath_job set
    dependents = case
        when finished_at is null then json_object('unreadable', json_object(
            'run_at', run_at,
            'enqueued_at', enqueued_at,
            'started_at', started_at,
            'finished_at', finished_at,
            'expires_at', expires_at,
            'deadline', deadline,
            'unique_until', unique_until,
            'changed_at', changed_at,
            'wait_since', wait_since,
            'blocked_until', blocked_until,
            'turn_at', turn_at,
            'deadline_in', deadline_in,
            'gated_delay', gated_delay,
            'tags', tags,
            'dependents', dependents
        ))
        when json_valid(dependents) then dependents
    end,
    run_at = min(max(run_at, -62135596800000000), 253402300799999999),
    enqueued_at = min(max(enqueued_at, -62135596800000000), 253402300799999999),
    started_at = min(max(started_at, -62135596800000000), 253402300799999999),
    finished_at = min(max(finished_at, -62135596800000000), 253402300799999999),
    expires_at = min(max(expires_at, -62135596800000000), 253402300799999999),
    deadline = min(max(deadline, -62135596800000000), 253402300799999999),
    unique_until = min(max(unique_until, -62135596800000000), 253402300799999999),
    changed_at = min(max(changed_at, -62135596800000000), 253402300799999999),
    wait_since = min(max(wait_since, -62135596800000000), 253402300799999999),
    blocked_until = min(max(blocked_until, -62135596800000000), 253402300799999999),
    turn_at = min(max(turn_at, -62135596800000000), 253402300799999999),
    deadline_in = case when deadline_in between 0 and 100000000000000000 then deadline_in end,
    gated_delay = case when gated_delay between -100000000000000000 and 100000000000000000 then gated_delay end,
    attempt = min(attempt, 2147483647),
    deliveries = min(deliveries, 2147483647),
    losses = min(losses, 2147483647),
    redrives = min(redrives, 2147483647),
    priority = min(max(priority, -2147483648), 2147483647),
    turn = null,
    announce = 0,
    gate_left = min(max(gate_left, 0), 1),
    watched = min(max(watched, 0), 2),
    has_undo = min(max(has_undo, 0), 1),
    task = substr(task, 1, 200),
    queue = substr(queue, 1, 200),
    tags = case
        when case when json_valid(tags) then json_type(tags) end = 'array' then tags
    end,
    unique_key = substr(unique_key, 1, 500),
    unique_slot = substr(unique_slot, 1, 500)
where not (
    run_at between -62135596800000000 and 253402300799999999
    and enqueued_at between -62135596800000000 and 253402300799999999
    and started_at between -62135596800000000 and 253402300799999999
    and finished_at between -62135596800000000 and 253402300799999999
    and expires_at between -62135596800000000 and 253402300799999999
    and deadline between -62135596800000000 and 253402300799999999
    and unique_until between -62135596800000000 and 253402300799999999
    and changed_at between -62135596800000000 and 253402300799999999
    and wait_since between -62135596800000000 and 253402300799999999
    and blocked_until between -62135596800000000 and 253402300799999999
    and turn_at between -62135596800000000 and 253402300799999999
    and deadline_in between 0 and 100000000000000000
    and gated_delay between -100000000000000000 and 100000000000000000
    and seq < 4611686018427387904
    and attempt < 4611686018427387904
    and deliveries < 4611686018427387904
    and losses < 4611686018427387904
    and redrives < 4611686018427387904
    and priority between -2147483648 and 2147483647
    and turn between -4611686018427387904 and 4611686018427387904
    and announce between 0 and 2147483647
    and gate_left between 0 and 1
    and watched between 0 and 2
    and has_undo between 0 and 1
    and length(task) <= 1000
    and length(queue) <= 1000
    and length(unique_key) <= 4000
    and (tags = '' or case when json_valid(tags) then json_type(tags) = 'array' else tags is null end)
    and (dependents = '' or case
                when json_valid(dependents) then json_type(dependents) in ('array', 'object')
                else dependents is null
            end)
);

update offpath_message set
    state = case when state = 'pending' then 'dead' else state end,
    reason = case when state = 'pending' then 'unreadable' else reason end,
    failure = case
        when state = 'pending' then json_object(
            'kind', 'unreadable', 'type', 'UnreadableRow',
            'at', strftime('%Y-%m-%dT%H:%M:%SZ', 'now'),
            'message', 'its row held what offpath never writes: created_at ' || created_at
            || ', due_at ' || due_at
        )
        when json_valid(failure) then case when json_type(failure) = 'object' then failure end
    end,
    holder = null,
    free_due_at = null,
    finished_at = case
        when state = 'pending' then unixepoch() * 1000000
        else min(max(finished_at, -62135596800000000), 253402300799999999)
    end,
    due_at = min(max(due_at, -62135596800000000), 253402300799999999),
    created_at = min(max(created_at, -62135596800000000), 253402300799999999),
    expires_at = min(max(expires_at, -62135596800000000), 253402300799999999),
    attempt = min(attempt, 2147483647),
    deliveries = min(deliveries, 2147483647)
where not (
    position < 4611686018427387904
    and due_at between -62135596800000000 and 253402300799999999
    and free_due_at between -62135596800000000 and 253402300799999999
    and created_at between -62135596800000000 and 253402300799999999
    and finished_at between -62135596800000000 and 253402300799999999
    and expires_at between -62135596800000000 and 253402300799999999
    and attempt < 4611686018427387904
    and deliveries < 4611686018427387904
    and case when json_valid(failure) then json_type(failure) = 'object' else failure is null end
);

update offpath_failure set
    failure = case
        when case when json_valid(failure) then json_type(failure) end = 'object' then failure
        else json_object('kind', 'unreadable', 'type', type, 'message', failure)
    end
where not (
    seq < 4611686018427387904
    and case when json_valid(failure) then json_type(failure) = 'object' else failure is null end
);

update offpath_group set
    open = min(open, 2147483647),
    failed = min(failed, 2147483647),
    done = min(max(done, 0), 2),
    closing = min(max(closing, 0), 1),
    to_close = min(max(to_close, 0), 1),
    final = min(max(final, 0), 1)
where not (
    open < 4611686018427387904
    and failed < 4611686018427387904
    and done between 0 and 2
    and closing between 0 and 1
    and to_close between 0 and 1
    and final between 0 and 1
);

update offpath_worker set
    started_at = min(max(started_at, -62135596800000000), 253402300799999999),
    seen_at = min(max(seen_at, -62135596800000000), 253402300799999999),
    expires_at = min(max(expires_at, -62135596800000000), 253402300799999999),
    gone_at = min(max(gone_at, -62135596800000000), 253402300799999999),
    info = case
        when case when json_valid(info) then json_type(info) end = 'object' then info
        else json_object(
            'id', id, 'host', '', 'pid', 0, 'version', '', 'concurrency', 0, 'tasks', json('[]'),
            'queues', json('[]')
        )
    end
where not (
    started_at between -62135596800000000 and 253402300799999999
    and seen_at between -62135596800000000 and 253402300799999999
    and expires_at between -62135596800000000 and 253402300799999999
    and gone_at between -62135596800000000 and 253402300799999999
    and case when json_valid(info) then json_type(info) = 'object' else info is null end
);

update offpath_claim set
    expires_at = min(max(expires_at, -62135596800000000), 253402300799999999)
where not (
    expires_at between -62135596800000000 and 253402300799999999
);

update offpath_log set
    slot = min(slot, 2147483647),
    at = min(max(at, -62135596800000000), 253402300799999999)
where not (
    position < 4611686018427387904
    and slot < 4611686018427387904
    and at between -62135596800000000 and 253402300799999999
);

update offpath_router set
    partitions = min(partitions, 2147483647),
    created_at = min(max(created_at, -62135596800000000), 253402300799999999)
where not (
    partitions < 4611686018427387904
    and created_at between -62135596800000000 and 253402300799999999
);

update offpath_route set
    place = min(max(place, 0), 4611686018427387904)
where not (
    place between 0 and 4611686018427387904
);

update offpath_cursor set
    start = min(start, 4611686018427387903),
    position = min(position, 4611686018427387903),
    passed = min(passed, 4611686018427387903),
    lease_until = min(max(lease_until, -62135596800000000), 253402300799999999),
    ran_at = min(max(ran_at, -62135596800000000), 253402300799999999)
where not (
    start < 4611686018427387904
    and position < 4611686018427387904
    and passed < 4611686018427387904
    and lease_until between -62135596800000000 and 253402300799999999
    and ran_at between -62135596800000000 and 253402300799999999
);

update offpath_attempt set
    number = min(number, 2147483647),
    position = min(max(position, 0), 4611686018427387904),
    at = min(max(at, -62135596800000000), 253402300799999999)
where not (
    number < 4611686018427387904
    and position between 0 and 4611686018427387904
    and at between -62135596800000000 and 253402300799999999
);

update offpath_letter set
    position = min(max(position, 0), 4611686018427387904),
    number = min(number, 2147483647),
    document = case
        when case when json_valid(document) then json_type(document) end = 'object' then document
        else json_object('unreadable', document)
    end,
    created_at = min(max(created_at, -62135596800000000), 253402300799999999),
    resolved_at = min(max(resolved_at, -62135596800000000), 253402300799999999)
where not (
    position between 0 and 4611686018427387904
    and number < 4611686018427387904
    and case when json_valid(document) then json_type(document) = 'object' else document is null end
    and created_at between -62135596800000000 and 253402300799999999
    and resolved_at between -62135596800000000 and 253402300799999999
);

update offpath_endpoint set
    secrets = case
        when case when json_valid(secrets) then json_type(secrets) end = 'array' then secrets
        else '[]'
    end,
    topics = case
        when case when json_valid(topics) then json_type(topics) end = 'array' then topics
        else '[]'
    end,
    streams = case
        when case when json_valid(streams) then json_type(streams) end = 'array' then streams
        else '[]'
    end,
    headers = case
        when case when json_valid(headers) then json_type(headers) end = 'object' then headers
        else '{}'
    end,
    failures = min(failures, 2147483647),
    failing_since = min(max(failing_since, -62135596800000000), 253402300799999999),
    blocked_until = min(max(blocked_until, -62135596800000000), 253402300799999999),
    created_at = min(max(created_at, -62135596800000000), 253402300799999999)
where not (
    case when json_valid(secrets) then json_type(secrets) = 'array' else secrets is null end
    and case when json_valid(topics) then json_type(topics) = 'array' else topics is null end
    and case when json_valid(streams) then json_type(streams) = 'array' else streams is null end
    and case when json_valid(headers) then json_type(headers) = 'object' else headers is null end
    and failures < 4611686018427387904
    and failing_since between -62135596800000000 and 253402300799999999
    and blocked_until between -62135596800000000 and 253402300799999999
    and created_at between -62135596800000000 and 253402300799999999
);

update offpath_schedule set
    definition = case
        when case when json_valid(definition) then json_type(definition) end = 'object' then definition
        else json_object('unreadable', definition)
    end,
    next_at = min(max(next_at, -62135596800000000), 253402300799999999),
    created_at = min(max(created_at, -62135596800000000), 253402300799999999),
    updated_at = min(max(updated_at, -62135596800000000), 253402300799999999),
    last_at = min(max(last_at, -62135596800000000), 253402300799999999),
    version = min(version, 2147483647)
where not (
    case when json_valid(definition) then json_type(definition) = 'object' else definition is null end
    and next_at between -62135596800000000 and 253402300799999999
    and created_at between -62135596800000000 and 253402300799999999
    and updated_at between -62135596800000000 and 253402300799999999
    and last_at between -62135596800000000 and 253402300799999999
    and version < 4611686018427387904
);

delete from offpath_occurrence
where not (
    at between -62135596800000000 and 253402300799999999
    and made_at between -62135596800000000 and 253402300799999999
);

update offpath_job_gate set
    need = min(need, 2147483647),
    total = min(total, 2147483647),
    succeeded = min(succeeded, 2147483647),
    failed = min(failed, 2147483647),
    deadline = min(max(deadline, -62135596800000000), 253402300799999999)
where not (
    need < 4611686018427387904
    and total < 4611686018427387904
    and succeeded < 4611686018427387904
    and failed < 4611686018427387904
    and deadline between -62135596800000000 and 253402300799999999
);

update offpath_gate_watch set
    place = min(max(place, 0), 4611686018427387904),
    early = min(max(early, 0), 1)
where not (
    place between 0 and 4611686018427387904
    and early between 0 and 1
);

update offpath_signal set
    sent_at = min(max(sent_at, -62135596800000000), 253402300799999999),
    expires_at = min(max(expires_at, -62135596800000000), 253402300799999999),
    taken_at = min(max(taken_at, -62135596800000000), 253402300799999999)
where not (
    position < 4611686018427387904
    and sent_at between -62135596800000000 and 253402300799999999
    and expires_at between -62135596800000000 and 253402300799999999
    and taken_at between -62135596800000000 and 253402300799999999
);

update offpath_limit set
    max_running = min(max_running, 2147483647),
    admitted = min(admitted, 2147483647),
    turn = 0,
    rate = case
        when case when json_valid(rate) then json_type(rate) end = 'object' then rate
    end,
    rate_state = case when json_valid(rate_state) then rate_state end,
    closed_until = min(max(closed_until, -62135596800000000), 253402300799999999),
    forget_at = min(max(forget_at, -62135596800000000), 253402300799999999)
where not (
    max_running < 4611686018427387904
    and admitted < 4611686018427387904
    and turn between -4611686018427387904 and 4611686018427387904
    and case when json_valid(rate) then json_type(rate) = 'object' else rate is null end
    and case when json_valid(rate_state) then 1 else rate_state is null end
    and closed_until between -62135596800000000 and 253402300799999999
    and forget_at between -62135596800000000 and 253402300799999999
);

update offpath_queue_pause set
    until = min(max(until, -62135596800000000), 253402300799999999)
where not (
    until between -62135596800000000 and 253402300799999999
);

update offpath_finding set
    since = min(max(since, -62135596800000000), 253402300799999999),
    seen_at = min(max(seen_at, -62135596800000000), 253402300799999999),
    accepted_at = min(max(accepted_at, -62135596800000000), 253402300799999999),
    ended_at = min(max(ended_at, -62135596800000000), 253402300799999999)
where not (
    since between -62135596800000000 and 253402300799999999
    and seen_at between -62135596800000000 and 253402300799999999
    and accepted_at between -62135596800000000 and 253402300799999999
    and ended_at between -62135596800000000 and 253402300799999999
);

alter table offpath_job add column readable integer generated always as (1) virtual
    constraint job_run_at_readable check (run_at between -62135596800000000 and 253402300799999999)
    constraint job_enqueued_at_readable check (enqueued_at between -62135596800000000 and 253402300799999999)
    constraint job_started_at_readable check (started_at between -62135596800000000 and 253402300799999999)
    constraint job_finished_at_readable check (finished_at between -62135596800000000 and 253402300799999999)
    constraint job_expires_at_readable check (expires_at between -62135596800000000 and 253402300799999999)
    constraint job_deadline_readable check (deadline between -62135596800000000 and 253402300799999999)
    constraint job_unique_until_readable check (unique_until between -62135596800000000 and 253402300799999999)
    constraint job_changed_at_readable check (changed_at between -62135596800000000 and 253402300799999999)
    constraint job_wait_since_readable check (wait_since between -62135596800000000 and 253402300799999999)
    constraint job_blocked_until_readable check (blocked_until between -62135596800000000 and 253402300799999999)
    constraint job_turn_at_readable check (turn_at between -62135596800000000 and 253402300799999999)
    constraint job_deadline_in_readable check (deadline_in between 0 and 100000000000000000)
    constraint job_gated_delay_readable check (gated_delay between -100000000000000000 and 100000000000000000)
    constraint job_seq_readable check (seq < 4611686018427387904)
    constraint job_attempt_readable check (attempt < 4611686018427387904)
    constraint job_deliveries_readable check (deliveries < 4611686018427387904)
    constraint job_losses_readable check (losses < 4611686018427387904)
    constraint job_redrives_readable check (redrives < 4611686018427387904)
    constraint job_priority_readable check (priority between -2147483648 and 2147483647)
    constraint job_turn_readable check (turn between -4611686018427387904 and 4611686018427387904)
    constraint job_announce_readable check (announce between 0 and 2147483647)
    constraint job_gate_left_readable check (gate_left between 0 and 1)
    constraint job_watched_readable check (watched between 0 and 2)
    constraint job_has_undo_readable check (has_undo between 0 and 1)
    constraint job_task_readable check (length(task) <= 1000)
    constraint job_queue_readable check (length(queue) <= 1000)
    constraint job_unique_key_readable check (length(unique_key) <= 4000)
    constraint job_tags_readable check (
        tags = '' or case when json_valid(tags) then json_type(tags) = 'array' else tags is null end
    )
    constraint job_dependents_readable check (
        dependents = '' or case
            when json_valid(dependents) then json_type(dependents) in ('array', 'object')
            else dependents is null
        end
    );

alter table offpath_failure add column readable integer generated always as (1) virtual
    constraint failure_seq_readable check (seq < 4611686018427387904)
    constraint failure_failure_readable check (
        case when json_valid(failure) then json_type(failure) = 'object' else failure is null end
    );

alter table offpath_group add column readable integer generated always as (1) virtual
    constraint group_open_readable check (open < 4611686018427387904)
    constraint group_failed_readable check (failed < 4611686018427387904)
    constraint group_done_readable check (done between 0 and 2)
    constraint group_closing_readable check (closing between 0 and 1)
    constraint group_to_close_readable check (to_close between 0 and 1)
    constraint group_final_readable check (final between 0 and 1);

alter table offpath_worker add column readable integer generated always as (1) virtual
    constraint worker_started_at_readable check (started_at between -62135596800000000 and 253402300799999999)
    constraint worker_seen_at_readable check (seen_at between -62135596800000000 and 253402300799999999)
    constraint worker_expires_at_readable check (expires_at between -62135596800000000 and 253402300799999999)
    constraint worker_gone_at_readable check (gone_at between -62135596800000000 and 253402300799999999)
    constraint worker_info_readable check (
        case when json_valid(info) then json_type(info) = 'object' else info is null end
    );

alter table offpath_claim add column readable integer generated always as (1) virtual
    constraint claim_expires_at_readable check (expires_at between -62135596800000000 and 253402300799999999);

alter table offpath_message add column readable integer generated always as (1) virtual
    constraint message_position_readable check (position < 4611686018427387904)
    constraint message_due_at_readable check (due_at between -62135596800000000 and 253402300799999999)
    constraint message_free_due_at_readable check (free_due_at between -62135596800000000 and 253402300799999999)
    constraint message_created_at_readable check (created_at between -62135596800000000 and 253402300799999999)
    constraint message_finished_at_readable check (finished_at between -62135596800000000 and 253402300799999999)
    constraint message_expires_at_readable check (expires_at between -62135596800000000 and 253402300799999999)
    constraint message_attempt_readable check (attempt < 4611686018427387904)
    constraint message_deliveries_readable check (deliveries < 4611686018427387904)
    constraint message_failure_readable check (
        case when json_valid(failure) then json_type(failure) = 'object' else failure is null end
    );

alter table offpath_log add column readable integer generated always as (1) virtual
    constraint log_position_readable check (position < 4611686018427387904)
    constraint log_slot_readable check (slot < 4611686018427387904)
    constraint log_at_readable check (at between -62135596800000000 and 253402300799999999);

alter table offpath_router add column readable integer generated always as (1) virtual
    constraint router_partitions_readable check (partitions < 4611686018427387904)
    constraint router_created_at_readable check (created_at between -62135596800000000 and 253402300799999999);

alter table offpath_route add column readable integer generated always as (1) virtual
    constraint route_place_readable check (place between 0 and 4611686018427387904);

alter table offpath_cursor add column readable integer generated always as (1) virtual
    constraint cursor_start_readable check (start < 4611686018427387904)
    constraint cursor_position_readable check (position < 4611686018427387904)
    constraint cursor_passed_readable check (passed < 4611686018427387904)
    constraint cursor_lease_until_readable check (lease_until between -62135596800000000 and 253402300799999999)
    constraint cursor_ran_at_readable check (ran_at between -62135596800000000 and 253402300799999999);

alter table offpath_attempt add column readable integer generated always as (1) virtual
    constraint attempt_number_readable check (number < 4611686018427387904)
    constraint attempt_position_readable check (position between 0 and 4611686018427387904)
    constraint attempt_at_readable check (at between -62135596800000000 and 253402300799999999);

alter table offpath_letter add column readable integer generated always as (1) virtual
    constraint letter_position_readable check (position between 0 and 4611686018427387904)
    constraint letter_number_readable check (number < 4611686018427387904)
    constraint letter_document_readable check (
        case when json_valid(document) then json_type(document) = 'object' else document is null end
    )
    constraint letter_created_at_readable check (created_at between -62135596800000000 and 253402300799999999)
    constraint letter_resolved_at_readable check (resolved_at between -62135596800000000 and 253402300799999999);

alter table offpath_endpoint add column readable integer generated always as (1) virtual
    constraint endpoint_secrets_readable check (
        case when json_valid(secrets) then json_type(secrets) = 'array' else secrets is null end
    )
    constraint endpoint_topics_readable check (
        case when json_valid(topics) then json_type(topics) = 'array' else topics is null end
    )
    constraint endpoint_streams_readable check (
        case when json_valid(streams) then json_type(streams) = 'array' else streams is null end
    )
    constraint endpoint_headers_readable check (
        case when json_valid(headers) then json_type(headers) = 'object' else headers is null end
    )
    constraint endpoint_failures_readable check (failures < 4611686018427387904)
    constraint endpoint_failing_since_readable check (failing_since between -62135596800000000 and 253402300799999999)
    constraint endpoint_blocked_until_readable check (blocked_until between -62135596800000000 and 253402300799999999)
    constraint endpoint_created_at_readable check (created_at between -62135596800000000 and 253402300799999999);

alter table offpath_schedule add column readable integer generated always as (1) virtual
    constraint schedule_definition_readable check (
        case when json_valid(definition) then json_type(definition) = 'object' else definition is null end
    )
    constraint schedule_next_at_readable check (next_at between -62135596800000000 and 253402300799999999)
    constraint schedule_created_at_readable check (created_at between -62135596800000000 and 253402300799999999)
    constraint schedule_updated_at_readable check (updated_at between -62135596800000000 and 253402300799999999)
    constraint schedule_last_at_readable check (last_at between -62135596800000000 and 253402300799999999)
    constraint schedule_version_readable check (version < 4611686018427387904);

alter table offpath_occurrence add column readable integer generated always as (1) virtual
    constraint occurrence_at_readable check (at between -62135596800000000 and 253402300799999999)
    constraint occurrence_made_at_readable check (made_at between -62135596800000000 and 253402300799999999);

alter table offpath_job_gate add column readable integer generated always as (1) virtual
    constraint job_gate_need_readable check (need < 4611686018427387904)
    constraint job_gate_total_readable check (total < 4611686018427387904)
    constraint job_gate_succeeded_readable check (succeeded < 4611686018427387904)
    constraint job_gate_failed_readable check (failed < 4611686018427387904)
    constraint job_gate_deadline_readable check (deadline between -62135596800000000 and 253402300799999999);

alter table offpath_gate_watch add column readable integer generated always as (1) virtual
    constraint gate_watch_place_readable check (place between 0 and 4611686018427387904)
    constraint gate_watch_early_readable check (early between 0 and 1);

alter table offpath_step add column readable integer generated always as (1) virtual
    constraint step_position_readable check (position < 4611686018427387904);

alter table offpath_signal add column readable integer generated always as (1) virtual
    constraint signal_position_readable check (position < 4611686018427387904)
    constraint signal_sent_at_readable check (sent_at between -62135596800000000 and 253402300799999999)
    constraint signal_expires_at_readable check (expires_at between -62135596800000000 and 253402300799999999)
    constraint signal_taken_at_readable check (taken_at between -62135596800000000 and 253402300799999999);

alter table offpath_limit add column readable integer generated always as (1) virtual
    constraint limit_max_running_readable check (max_running < 4611686018427387904)
    constraint limit_admitted_readable check (admitted < 4611686018427387904)
    constraint limit_turn_readable check (turn between -4611686018427387904 and 4611686018427387904)
    constraint limit_rate_readable check (
        case when json_valid(rate) then json_type(rate) = 'object' else rate is null end
    )
    constraint limit_rate_state_readable check (case when json_valid(rate_state) then 1 else rate_state is null end)
    constraint limit_closed_until_readable check (closed_until between -62135596800000000 and 253402300799999999)
    constraint limit_forget_at_readable check (forget_at between -62135596800000000 and 253402300799999999);

alter table offpath_queue_pause add column readable integer generated always as (1) virtual
    constraint queue_pause_until_readable check (until between -62135596800000000 and 253402300799999999);

alter table offpath_finding add column readable integer generated always as (1) virtual
    constraint finding_since_readable check (since between -62135596800000000 and 253402300799999999)
    constraint finding_seen_at_readable check (seen_at between -62135596800000000 and 253402300799999999)
    constraint finding_accepted_at_readable check (accepted_at between -62135596800000000 and 253402300799999999)
    constraint finding_ended_at_readable check (ended_at between -62135596800000000 and 253402300799999999);

-- Of each element a check cannot ask.
create trigger offpath_job_tags_readable before insert on offpath_job
when case
    when json_valid(new.tags)
        then exists (select 1 from json_each(new.tags) as tag where tag.type <> 'text')
end
begin
    select raise(abort, 'offpath: tags are texts');
end;

create trigger offpath_job_tags_readable_still before update of tags on offpath_job
when case
    when json_valid(new.tags)
        then exists (select 1 from json_each(new.tags) as tag where tag.type <> 'text')
end
begin
    select raise(abort, 'offpath: tags are texts');
end;
