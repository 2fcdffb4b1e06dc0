-- steps: 1 to 36, 91278eef14bf6b064227e35a17f28b23751acceba373b3c90f9687f40d7266e2

CREATE TABLE offpath_job (
    seq integer primary key,
    id text not null unique,
    task text not null,
    queue text not null,
    -- `or` and not `in`: SQLite builds the list of an `in` anew for each row it checks.
    state text not null check (
        state = 'ready' or state = 'running' or state = 'succeeded' or state = 'scheduled'
        or state = 'dead' or state = 'cancelled' or state = 'blocked'
    ),
    priority integer not null,
    run_at integer not null,
    enqueued_at integer not null,
    attempt integer not null default 1 check (attempt >= 1),
    deliveries integer not null default 0 check (deliveries >= 0),
    losses integer not null default 0 check (losses >= 0),
    redrives integer not null default 0 check (redrives >= 0),
    cancel_requested integer not null default 0 check (cancel_requested in (0, 1)),
    worker text check ((worker is not null) = (state = 'running')),
    group_id text not null,
    parent text,
    started_at integer,
    finished_at integer check (
        (finished_at is not null)
        = (state = 'succeeded' or state = 'dead' or state = 'cancelled')
    ),
    expires_at integer check (expires_at is null or finished_at is not null),
    deadline integer,
    deadline_in integer,
    -- The key as asked for; the slot is the key while it is held.
    unique_key text,
    unique_slot text check (unique_slot is null or unique_slot = unique_key),
    unique_states text check ((unique_states is not null) = (unique_key is not null)),
    unique_until integer,
    fingerprint text not null,
    reason text,
    dependents text,
    tags text,
    options text not null,
    progress text,
    input text not null,
    result text
, announce integer not null default 0, changed_at integer, gate text, gate_left integer not null default 0, gated_delay integer, watched integer not null default 0, wait_target text, wait_event text, wait_since integer, blocked_until integer, has_undo integer not null default 0, limit_key text, fair_key text, turn integer, turn_at integer, called_target text, called_event text, suspected text, alone integer, readable integer generated always as (1) virtual
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
    ), headers text, error_key text, redriven_at integer
    constraint job_redriven_at_readable check (redriven_at between -62135596800000000 and 253402300799999999)) strict;

CREATE INDEX offpath_job_running on offpath_job (worker)
where state = 'running';

CREATE INDEX offpath_job_expiry on offpath_job (expires_at)
where expires_at is not null;

CREATE INDEX offpath_job_dead on offpath_job (id)
where state = 'dead';

CREATE INDEX offpath_job_member on offpath_job (group_id)
where group_id <> id;

CREATE UNIQUE INDEX offpath_job_slot on offpath_job (unique_slot)
where unique_slot is not null;

CREATE INDEX offpath_job_keyless on offpath_job (seq)
where state = 'running' and unique_key is not null and unique_slot is null;

CREATE TABLE offpath_failure (
    seq integer primary key,
    job integer not null,
    type text not null,
    failure text not null
, readable integer generated always as (1) virtual
    constraint failure_seq_readable check (seq < 4611686018427387904)
    constraint failure_failure_readable check (
        case when json_valid(failure) then json_type(failure) = 'object' else failure is null end
    )) strict;

CREATE INDEX offpath_failure_job on offpath_failure (job, seq);

CREATE TABLE offpath_group (
    id text primary key,
    open integer not null check (open >= 0)
, failed integer not null default 0 check (failed >= 0), policy text not null default 'settle_all' check (
    policy = 'settle_all' or policy = 'fail_fast'
), done integer not null default 0, closing integer not null default 0, to_close integer not null default 0, final integer not null default 0, value text, readable integer generated always as (1) virtual
    constraint group_open_readable check (open < 4611686018427387904)
    constraint group_failed_readable check (failed < 4611686018427387904)
    constraint group_done_readable check (done between 0 and 2)
    constraint group_closing_readable check (closing between 0 and 1)
    constraint group_to_close_readable check (to_close between 0 and 1)
    constraint group_final_readable check (final between 0 and 1)) strict, without rowid;

CREATE TABLE offpath_worker (
    id text primary key,
    info text not null,
    started_at integer not null,
    seen_at integer not null,
    expires_at integer not null,
    presence integer not null check (presence in (0, 1))
, report text, gone_at integer, readable integer generated always as (1) virtual
    constraint worker_started_at_readable check (started_at between -62135596800000000 and 253402300799999999)
    constraint worker_seen_at_readable check (seen_at between -62135596800000000 and 253402300799999999)
    constraint worker_expires_at_readable check (expires_at between -62135596800000000 and 253402300799999999)
    constraint worker_gone_at_readable check (gone_at between -62135596800000000 and 253402300799999999)
    constraint worker_info_readable check (
        case when json_valid(info) then json_type(info) = 'object' else info is null end
    ), asked text
    constraint worker_asked_readable check (iif(json_valid(asked), json_type(asked) = 'array', asked is null)), answer text
    constraint worker_answer_readable check (iif(json_valid(answer), json_type(answer) = 'object', answer is null)), answered_at integer
    constraint worker_answered_at_readable
    check (answered_at between -62135596800000000 and 253402300799999999)) strict, without rowid;

CREATE TABLE offpath_claim (
    key text primary key,
    holder text not null,
    expires_at integer
, readable integer generated always as (1) virtual
    constraint claim_expires_at_readable check (expires_at between -62135596800000000 and 253402300799999999)) strict, without rowid;

CREATE INDEX offpath_claim_expiry on offpath_claim (expires_at)
where expires_at is not null;

CREATE TABLE offpath_message (
    position integer primary key,
    id text not null unique,
    box text not null check (box = 'out' or box = 'in'),
    stream text not null,
    key text check (box = 'out' or key is not null),
    topic text not null default '',
    state text not null default 'pending' check (
        state = 'pending' or state = 'done' or state = 'dead'
    ),
    -- Whether no earlier message of its key is pending; kept by the triggers below. A lease that
    -- keeps the order begins with these, and so never walks past messages that have to wait.
    leads integer not null default 1 check (leads = 0 or leads = 1),
    due_at integer not null,
    -- When it was due before it was handed out.
    free_due_at integer check ((free_due_at is not null) = (holder is not null)),
    holder text check (holder is null or state = 'pending'),
    attempt integer not null default 1 check (attempt >= 1),
    deliveries integer not null default 0 check (deliveries >= 0),
    created_at integer not null,
    finished_at integer check ((finished_at is not null) = (state = 'done' or state = 'dead')),
    expires_at integer check (expires_at is null or finished_at is not null),
    reason text check (reason is null or state = 'dead'),
    failure text,
    headers text not null default '{}',
    payload text not null
, readable integer generated always as (1) virtual
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
    )) strict;

CREATE INDEX offpath_message_due on offpath_message (box, stream, leads, due_at)
where state = 'pending';

CREATE INDEX offpath_message_turn on offpath_message (box, stream, key, position)
where state = 'pending' and key is not null;

CREATE INDEX offpath_message_held on offpath_message (box, stream)
where holder is not null;

CREATE INDEX offpath_message_dead on offpath_message (box, stream, finished_at)
where state = 'dead';

CREATE INDEX offpath_message_expiry on offpath_message (expires_at)
where expires_at is not null;

CREATE UNIQUE INDEX offpath_message_accepted on offpath_message (stream, key)
where box = 'in';

CREATE TRIGGER offpath_message_new after insert on offpath_message
when
    new.key is not null and new.box = 'out'
    and exists (
        select 1 from offpath_message as earlier
        where
            earlier.box = new.box and earlier.stream = new.stream and earlier.key = new.key
            and earlier.position < new.position and earlier.state = 'pending'
    )
begin
    update offpath_message set leads = 0 where position = new.position;
end;

CREATE TRIGGER offpath_message_ended after update of state on offpath_message
when
    new.key is not null and new.box = 'out'
    and old.state = 'pending' and new.state <> 'pending' and old.leads = 1
begin
    update offpath_message set leads = 1
    where position = (
        select next.position from offpath_message as next
        where
            next.box = new.box and next.stream = new.stream and next.key = new.key
            and next.state = 'pending'
        order by next.position limit 1
    );
end;

CREATE TRIGGER offpath_message_revived after update of state on offpath_message
when
    new.key is not null and new.box = 'out' and old.state <> 'pending' and new.state = 'pending'
begin
    update offpath_message set
        leads = not exists (
            select 1 from offpath_message as earlier
            where
                earlier.box = new.box and earlier.stream = new.stream and earlier.key = new.key
                and earlier.position < new.position and earlier.state = 'pending'
        )
    where position = new.position;
    update offpath_message set leads = 0
    where
        leads = 1
        and position = (
            select later.position from offpath_message as later
            where
                later.box = new.box and later.stream = new.stream and later.key = new.key
                and later.position > new.position and later.state = 'pending'
            order by later.position limit 1
        );
end;

CREATE TABLE offpath_log (
    position integer primary key autoincrement,
    id text not null unique,
    domain text not null,
    type text not null,
    stream text not null,
    key text,
    slot integer not null check (slot >= 0),
    at integer not null,
    payload text not null
, readable integer generated always as (1) virtual
    constraint log_position_readable check (position < 4611686018427387904)
    constraint log_slot_readable check (slot < 4611686018427387904)
    constraint log_at_readable check (at between -62135596800000000 and 253402300799999999), headers text) strict;

CREATE INDEX offpath_log_domain on offpath_log (domain, position);

CREATE INDEX offpath_log_at on offpath_log (at);

CREATE TABLE offpath_router (
    name text primary key check (name <> ''),
    domain text not null,
    partitions integer not null check (partitions >= 1),
    created_at integer not null
, readable integer generated always as (1) virtual
    constraint router_partitions_readable check (partitions < 4611686018427387904)
    constraint router_created_at_readable check (created_at between -62135596800000000 and 253402300799999999)) strict, without rowid;

CREATE TABLE offpath_gate (
    router text primary key,
    open integer not null check (open = 0 or open = 1)
) strict, without rowid;

CREATE TABLE offpath_route (
    router text not null,
    name text not null,
    place integer not null,
    type text not null,
    stream text not null,
    deliver text not null,
    enabled integer not null default 0 check (enabled = 0 or enabled = 1),
    dry_run integer not null default 1 check (dry_run = 0 or dry_run = 1), readable integer generated always as (1) virtual
    constraint route_place_readable check (place between 0 and 4611686018427387904),
    primary key (router, name)
) strict, without rowid;

CREATE TABLE offpath_cursor (
    router text not null,
    partition integer not null check (partition >= 0),
    start integer not null check (start >= 0),
    position integer not null check (position >= 0),
    holder text,
    lease_until integer check ((lease_until is not null) = (holder is not null)),
    passed integer not null default 0 check (passed >= 0),
    ran_at integer,
    summary text, mark text, readable integer generated always as (1) virtual
    constraint cursor_start_readable check (start < 4611686018427387904)
    constraint cursor_position_readable check (position < 4611686018427387904)
    constraint cursor_passed_readable check (passed < 4611686018427387904)
    constraint cursor_lease_until_readable check (lease_until between -62135596800000000 and 253402300799999999)
    constraint cursor_ran_at_readable check (ran_at between -62135596800000000 and 253402300799999999),
    primary key (router, partition)
) strict, without rowid;

CREATE TABLE offpath_attempt (
    router text not null,
    event text not null,
    number integer not null check (number >= 1),
    position integer not null,
    status text not null check (
        status = 'dry_run' or status = 'disabled' or status = 'skipped' or status = 'sent'
        or status = 'failed'
    ),
    route text not null,
    detail text,
    at integer not null, readable integer generated always as (1) virtual
    constraint attempt_number_readable check (number < 4611686018427387904)
    constraint attempt_position_readable check (position between 0 and 4611686018427387904)
    constraint attempt_at_readable check (at between -62135596800000000 and 253402300799999999),
    primary key (router, event, number)
) strict, without rowid;

CREATE INDEX offpath_attempt_position on offpath_attempt (router, position, number);

CREATE TABLE offpath_letter (
    id text primary key,
    router text not null,
    route text not null,
    event text not null,
    position integer not null,
    document text not null,
    reason text not null,
    detail text not null,
    number integer not null check (number >= 1),
    created_at integer not null,
    resolved_at integer,
    resolution text check ((resolution is not null) = (resolved_at is not null))
, readable integer generated always as (1) virtual
    constraint letter_position_readable check (position between 0 and 4611686018427387904)
    constraint letter_number_readable check (number < 4611686018427387904)
    constraint letter_document_readable check (
        case when json_valid(document) then json_type(document) = 'object' else document is null end
    )
    constraint letter_created_at_readable check (created_at between -62135596800000000 and 253402300799999999)
    constraint letter_resolved_at_readable check (resolved_at between -62135596800000000 and 253402300799999999)) strict, without rowid;

CREATE INDEX offpath_letter_position on offpath_letter (router, position);

CREATE INDEX offpath_letter_event on offpath_letter (router, event);

CREATE TABLE offpath_endpoint (
    name text primary key,
    url text not null,
    secrets text not null,
    topics text not null,
    streams text not null,
    headers text not null,
    state text not null check (state = 'enabled' or state = 'paused' or state = 'disabled'),
    reason text,
    failures integer not null default 0 check (failures >= 0),
    failing_since integer,
    blocked_until integer,
    created_at integer not null
, readable integer generated always as (1) virtual
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
    constraint endpoint_created_at_readable check (created_at between -62135596800000000 and 253402300799999999), posts text
    constraint endpoint_posts_readable
    check (posts is null or iif(json_valid(posts), json_type(posts) = 'array', 0)), trace integer not null default 1
    constraint endpoint_trace_readable check (trace in (0, 1))) strict, without rowid;

CREATE TRIGGER offpath_job_announced_new after insert on offpath_job
when
    new.announce <> 0
    and new.announce & case new.state
        when 'ready' then 1 when 'scheduled' then 1 when 'running' then 2 when 'succeeded' then 4
        when 'dead' then 8 when 'cancelled' then 16 else 0
    end
begin
    insert into offpath_message (id, box, stream, key, topic, due_at, created_at, payload)
    select
        lower(
            hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2)
            || '-' || substr('89AB', 1 + (random() & 3), 1) || substr(hex(randomblob(2)), 2)
            || '-' || hex(randomblob(6))
        ),
        'out', 'offpath.jobs', new.id, 'job.' || state, new.enqueued_at, new.enqueued_at,
        case
            when new.announce & 32 then json_object(
                'job', new.id, 'task', new.task, 'queue', new.queue, 'previous', null,
                'state', state, 'attempt', new.attempt,
                'sequence', 4 * (new.deliveries + new.redrives) + rank,
                'at', at, 'reason', new.reason, 'result', new.result, 'error', null
            )
            else json_object(
                'job', new.id, 'task', new.task, 'queue', new.queue, 'previous', null,
                'state', state, 'attempt', new.attempt,
                'sequence', 4 * (new.deliveries + new.redrives) + rank,
                'at', at, 'reason', new.reason
            )
        end
    from (
        select
            case new.state
                when 'ready' then 'queued' when 'scheduled' then 'queued' else new.state
            end as state,
            case new.state
                when 'running' then 0 when 'succeeded' then 2 when 'dead' then 2
                when 'cancelled' then 3 else 1
            end as rank,
            strftime('%Y-%m-%dT%H:%M:%S', new.enqueued_at / 1000000, 'unixepoch')
            || printf('.%06dZ', new.enqueued_at % 1000000) as at
    );
end;

CREATE TRIGGER offpath_job_announced_change after update of state on offpath_job
when
    new.announce <> 0
    and old.state <> new.state
    and not (old.state = 'ready' and new.state = 'scheduled')
    and not (old.state = 'scheduled' and new.state = 'ready')
    and new.announce & case new.state
        when 'ready' then 1 when 'scheduled' then 1 when 'running' then 2 when 'succeeded' then 4
        when 'dead' then 8 when 'cancelled' then 16 else 0
    end
begin
    insert into offpath_message (id, box, stream, key, topic, due_at, created_at, payload)
    select
        lower(
            hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2)
            || '-' || substr('89AB', 1 + (random() & 3), 1) || substr(hex(randomblob(2)), 2)
            || '-' || hex(randomblob(6))
        ),
        'out', 'offpath.jobs', new.id, 'job.' || state, moment, moment,
        case
            when new.announce & 32 then json_object(
                'job', new.id, 'task', new.task, 'queue', new.queue, 'previous', previous,
                'state', state, 'attempt', new.attempt,
                'sequence', 4 * (new.deliveries + new.redrives) + rank,
                'at', at, 'reason', new.reason, 'result', new.result,
                'error', (
                    select past.type from offpath_failure as past
                    where past.job = new.seq order by past.seq desc limit 1
                )
            )
            else json_object(
                'job', new.id, 'task', new.task, 'queue', new.queue, 'previous', previous,
                'state', state, 'attempt', new.attempt,
                'sequence', 4 * (new.deliveries + new.redrives) + rank,
                'at', at, 'reason', new.reason
            )
        end
    from (
        select
            moment,
            case old.state
                when 'ready' then 'queued' when 'scheduled' then 'queued' else old.state
            end as previous,
            case new.state
                when 'ready' then 'queued' when 'scheduled' then 'queued' else new.state
            end as state,
            case new.state
                when 'running' then 0 when 'succeeded' then 2 when 'dead' then 2
                when 'cancelled' then 3 else 1
            end as rank,
            strftime('%Y-%m-%dT%H:%M:%S', moment / 1000000, 'unixepoch')
            || printf('.%06dZ', moment % 1000000) as at
        from (
            -- The times at which a job starts and ends are its own. When it came to wait again an
            -- older version does not say: the time before that is the best there is.
            select
                case
                    when new.state = 'running' then coalesce(new.started_at, new.enqueued_at)
                    when new.finished_at is not null then new.finished_at
                    else max(
                        new.enqueued_at, coalesce(new.changed_at, 0), coalesce(old.started_at, 0),
                        coalesce(old.finished_at, 0)
                    )
                end as moment
        )
    );
end;

CREATE TRIGGER offpath_failure_announced after insert on offpath_failure
when exists (
    select 1 from offpath_job as job where job.seq = new.job and (job.announce & 32) <> 0
)
begin
    update offpath_message set payload = json_set(payload, '$.error', new.type)
    where
        position = (
            select message.position
            from offpath_job as job
            cross join offpath_message as message
            where
                job.seq = new.job
                and message.box = 'out' and message.stream = 'offpath.jobs'
                and message.key = job.id and message.state = 'pending'
            order by message.position desc limit 1
        )
        and holder is null
        and json_extract(payload, '$.sequence') = (
            select
                4 * (job.deliveries + job.redrives) + case job.state
                    when 'running' then 0 when 'succeeded' then 2 when 'dead' then 2
                    when 'cancelled' then 3 else 1
                end
            from offpath_job as job where job.seq = new.job
        );
end;

CREATE TABLE offpath_schedule (
    name text primary key,
    -- The definition with its template, as JSON; only code that made it reads it.
    definition text not null,
    paused integer not null default 0 check (paused = 0 or paused = 1),
    next_at integer,
    created_at integer not null,
    updated_at integer not null,
    version integer not null default 1 check (version >= 1),
    last_at integer,
    last_job text
, readable integer generated always as (1) virtual
    constraint schedule_definition_readable check (
        case when json_valid(definition) then json_type(definition) = 'object' else definition is null end
    )
    constraint schedule_next_at_readable check (next_at between -62135596800000000 and 253402300799999999)
    constraint schedule_created_at_readable check (created_at between -62135596800000000 and 253402300799999999)
    constraint schedule_updated_at_readable check (updated_at between -62135596800000000 and 253402300799999999)
    constraint schedule_last_at_readable check (last_at between -62135596800000000 and 253402300799999999)
    constraint schedule_version_readable check (version < 4611686018427387904)) strict, without rowid;

CREATE INDEX offpath_schedule_due on offpath_schedule (next_at, name)
    where paused = 0 and next_at is not null;

CREATE TABLE offpath_occurrence (
    schedule text not null,
    at integer not null,
    outcome text not null check (
        outcome = 'fired' or outcome = 'skipped' or outcome = 'missed' or outcome = 'triggered'
    ),
    job text,
    made_at integer not null, readable integer generated always as (1) virtual
    constraint occurrence_at_readable check (at between -62135596800000000 and 253402300799999999)
    constraint occurrence_made_at_readable check (made_at between -62135596800000000 and 253402300799999999),
    primary key (schedule, at)
) strict, without rowid;

CREATE INDEX offpath_occurrence_made on offpath_occurrence (made_at);

CREATE INDEX offpath_job_blocked_until on offpath_job (blocked_until)
where blocked_until is not null;

CREATE INDEX offpath_job_gated on offpath_job (gate)
where gate is not null;

CREATE INDEX offpath_job_waiting on offpath_job (wait_target, wait_event, wait_since)
where wait_target is not null;

CREATE INDEX offpath_job_uncounted on offpath_job (seq)
where watched = 1 and finished_at is not null;

CREATE INDEX offpath_job_undoing on offpath_job (id)
where has_undo = 1 and finished_at is not null;

CREATE INDEX offpath_group_to_close on offpath_group (id)
where to_close = 1;

CREATE TRIGGER offpath_group_joined after update of open on offpath_group
when new.closing = 1 and new.to_close = 0 and new.open > old.open
begin
    update offpath_group set to_close = 1 where id = new.id;
end;

CREATE TABLE offpath_job_gate (
    id text primary key,
    need integer not null check (need >= 0),
    counting text not null check (counting = 'succeeded' or counting = 'settled'),
    total integer not null,
    succeeded integer not null default 0 check (succeeded >= 0),
    failed integer not null default 0 check (failed >= 0),
    state text not null default 'open' check (
        state = 'open' or state = 'fired' or state = 'unsatisfiable' or state = 'timed_out'
    ),
    deadline integer, readable integer generated always as (1) virtual
    constraint job_gate_need_readable check (need < 4611686018427387904)
    constraint job_gate_total_readable check (total < 4611686018427387904)
    constraint job_gate_succeeded_readable check (succeeded < 4611686018427387904)
    constraint job_gate_failed_readable check (failed < 4611686018427387904)
    constraint job_gate_deadline_readable check (deadline between -62135596800000000 and 253402300799999999),
    check (succeeded + failed <= total)
) strict, without rowid;

CREATE INDEX offpath_job_gate_due on offpath_job_gate (deadline)
where state = 'open' and deadline is not null;

CREATE TABLE offpath_step (
    position integer primary key,
    job text not null,
    kind text not null check (kind = 'step' or kind = 'undo'),
    name text not null,
    result text, readable integer generated always as (1) virtual
    constraint step_position_readable check (position < 4611686018427387904), at integer
    constraint step_at_readable check (at between -62135596800000000 and 253402300799999999),
    unique (job, kind, name)
) strict;

CREATE TABLE offpath_signal (
    position integer primary key,
    id text not null unique,
    target text not null,
    event text not null,
    payload text not null,
    sent_at integer not null,
    expires_at integer not null,
    taken_at integer
, readable integer generated always as (1) virtual
    constraint signal_position_readable check (position < 4611686018427387904)
    constraint signal_sent_at_readable check (sent_at between -62135596800000000 and 253402300799999999)
    constraint signal_expires_at_readable check (expires_at between -62135596800000000 and 253402300799999999)
    constraint signal_taken_at_readable check (taken_at between -62135596800000000 and 253402300799999999)) strict;

CREATE INDEX offpath_signal_open on offpath_signal (target, event, position)
where taken_at is null;

CREATE INDEX offpath_signal_expiring on offpath_signal (expires_at);

CREATE INDEX offpath_job_held on offpath_job (
    limit_key, queue, coalesce(turn, priority) desc, coalesce(turn_at, run_at), id
)
where state = 'blocked' and reason = 'limit';

CREATE INDEX offpath_job_limited on offpath_job (limit_key)
where limit_key is not null;

CREATE INDEX offpath_job_untaken on offpath_job (limit_key, changed_at)
where state = 'ready' and limit_key is not null;

CREATE INDEX offpath_job_blocked on offpath_job (queue)
where state = 'blocked' and reason <> 'limit';

CREATE INDEX offpath_job_share on offpath_job (fair_key)
where state = 'running' and fair_key is not null;

CREATE TABLE offpath_limit (
    key text primary key,
    max_running integer check (max_running >= 0),
    rate text,
    rate_state text,
    -- Jobs of the key that are ready or running; kept by the trigger below.
    admitted integer not null default 0 check (admitted >= 0),
    closed_until integer,
    paused integer not null default 0 check (paused = 0 or paused = 1),
    -- The key with the lowest one is the next to be admitted from.
    turn integer not null default 0,
    -- When to look whether the key is still needed.
    forget_at integer not null
, readable integer generated always as (1) virtual
    constraint limit_max_running_readable check (max_running < 4611686018427387904)
    constraint limit_admitted_readable check (admitted < 4611686018427387904)
    constraint limit_turn_readable check (turn between -4611686018427387904 and 4611686018427387904)
    constraint limit_rate_readable check (
        case when json_valid(rate) then json_type(rate) = 'object' else rate is null end
    )
    constraint limit_rate_state_readable check (case when json_valid(rate_state) then 1 else rate_state is null end)
    constraint limit_closed_until_readable check (closed_until between -62135596800000000 and 253402300799999999)
    constraint limit_forget_at_readable check (forget_at between -62135596800000000 and 253402300799999999), parts integer not null default 0
    constraint limit_parts_readable check (parts in (0, 1)), shared integer not null default 0
    constraint limit_shared_readable check (shared >= 0 and shared < 4611686018427387904)) strict, without rowid;

CREATE INDEX offpath_limit_forget on offpath_limit (forget_at);

CREATE TABLE offpath_queue_pause (
    name text primary key,
    until integer
, readable integer generated always as (1) virtual
    constraint queue_pause_until_readable check (until between -62135596800000000 and 253402300799999999)) strict, without rowid;

CREATE TRIGGER offpath_job_left after update of state, limit_key on offpath_job
when
    old.limit_key is not null
    and (old.state = 'ready' or old.state = 'running')
    and not (
        (new.state = 'ready' or new.state = 'running') and new.limit_key is old.limit_key
    )
begin
    update offpath_limit set admitted = admitted - 1 where key = old.limit_key;
end;

CREATE TRIGGER offpath_job_let_in after update of state, limit_key on offpath_job
when
    new.limit_key is not null
    and (new.state = 'ready' or new.state = 'running')
    and not (
        (old.state = 'ready' or old.state = 'running') and old.limit_key is new.limit_key
    )
    -- What the last trigger sends back is counted there.
    and not (
        new.state = 'ready' and old.state <> 'ready' and old.state <> 'running'
        and not (old.state = 'blocked' and old.reason is 'limit')
    )
begin
    update offpath_limit set admitted = admitted + 1 where key = new.limit_key;
end;

CREATE TRIGGER offpath_job_limited after update of state on offpath_job
when
    new.limit_key is not null
    and new.state = 'ready'
    and old.state <> 'ready'
    and old.state <> 'running'
    and not (old.state = 'blocked' and old.reason is 'limit')
begin
    update offpath_limit set admitted = admitted + 1 where key = new.limit_key;
    update offpath_job set
        state = 'blocked',
        reason = 'limit',
        blocked_until = deadline,
        turn = case when old.finished_at is null then turn end,
        turn_at = case when old.finished_at is null then turn_at end
    where seq = new.seq;
end;

CREATE TABLE offpath_ledger_account (
    id text primary key,
    kind text not null,
    currency text not null,
    -- 1: a debit, which is a positive entry, raises it; -1: a credit does.
    side integer not null,
    guarded integer not null,
    balance integer not null default 0,
    raised integer not null default 0 check (raised >= 0),
    head text not null default '0000000000000000000000000000000000000000000000000000000000000000',
    number integer not null default 0 check (number >= 0),
    constraint never_below_zero check (guarded = 0 or balance >= 0)
) strict, without rowid;

CREATE TABLE offpath_ledger_posting (
    -- The order of the commits.
    seq integer primary key,
    id text not null unique,
    at integer not null,
    source text,
    meta text not null check (json_valid(meta))
) strict;

CREATE TABLE offpath_ledger_link (
    id integer primary key,
    account text not null,
    -- A time that falls, when a clock was set back, does not matter: this is the order.
    number integer not null check (number >= 1),
    amount integer not null,
    -- The amounts of its entries as JSON, where they are not one of `amount`.
    entries text,
    balance integer not null,
    raised integer not null,
    prev text not null check (length(prev) = 64),
    hash text not null check (length(hash) = 64)
) strict;

CREATE UNIQUE INDEX offpath_ledger_link_chain on offpath_ledger_link (account, number);

CREATE INDEX offpath_ledger_link_raising on offpath_ledger_link (account, number)
where amount < 0 and substr(account, -10) = ':spendable';

CREATE TABLE offpath_ledger_draft (
    id integer primary key,
    account text not null,
    number integer not null,
    amount integer not null,
    balance integer not null,
    hash text not null,
    entries text
) strict;

CREATE TABLE offpath_ledger_side (
    seq integer primary key,
    kind text not null,
    id text not null,
    owner text not null,
    state text not null,
    version integer not null check (version >= 1),
    due_at integer,
    attempts integer not null default 0 check (attempts >= 0),
    amount integer,
    anchor text,
    unique_key text,
    created_at integer not null,
    touched_at integer not null,
    body text not null check (json_valid(body)),
    constraint known_state check (
        (kind = 'sale' and state = 'SOLD')
        or (kind = 'entitlement' and (state = 'OWNED' or state = 'REVOKED'))
        or (
            kind = 'payout'
            and (
                state = 'RESERVED' or state = 'SUBMITTED' or state = 'SETTLED' or state = 'FAILED'
            )
        )
        or (
            kind = 'subscription'
            and (state = 'ACTIVE' or state = 'LAPSED' or state = 'CANCELED')
        )
        or (kind = 'promo' and (state = 'OPEN' or state = 'REVERSED' or state = 'DEAD'))
    )
) strict;

CREATE UNIQUE INDEX offpath_ledger_side_id on offpath_ledger_side (kind, id);

CREATE UNIQUE INDEX offpath_ledger_side_holder on offpath_ledger_side (kind, unique_key)
where unique_key is not null;

CREATE INDEX offpath_ledger_side_owner on offpath_ledger_side (kind, owner, id);

CREATE INDEX offpath_ledger_side_due on offpath_ledger_side (kind, due_at, id)
where due_at is not null
    and (state = 'RESERVED' or state = 'SUBMITTED' or state = 'ACTIVE' or state = 'OPEN');

CREATE INDEX offpath_ledger_side_paid on offpath_ledger_side (owner, touched_at)
where kind = 'payout';

CREATE INDEX offpath_ledger_side_quote on offpath_ledger_side (amount)
where kind = 'payout' and (state = 'RESERVED' or state = 'SUBMITTED');

CREATE TABLE offpath_ledger_key (
    seq integer primary key,
    key text not null unique,
    fingerprint text not null,
    receipt text not null check (json_valid(receipt)),
    at integer not null
) strict;

CREATE TABLE offpath_ledger_attempt (
    seq integer primary key,
    subject text not null,
    key text not null,
    amount integer not null,
    at integer not null,
    total integer not null
) strict;

CREATE UNIQUE INDEX offpath_ledger_attempt_key on offpath_ledger_attempt (subject, key);

CREATE INDEX offpath_ledger_attempt_at on offpath_ledger_attempt (subject, at);

CREATE TABLE offpath_ledger_checkpoint (
    seq integer primary key,
    id text not null unique,
    root text not null,
    signature text not null,
    count integer not null check (count >= 0),
    at integer not null,
    v integer not null,
    sum integer,
    kid text,
    prev text
, posting integer) strict;

CREATE TABLE offpath_ledger_leaf (
    account text primary key,
    number integer not null check (number >= 1),
    head text not null check (length(head) = 64),
    sum integer not null
) strict, without rowid;

CREATE TRIGGER offpath_ledger_account_new before insert on offpath_ledger_account
begin
    select case
        -- A REPLACE removes the row that is in its way without any trigger.
        when exists (select 1 from offpath_ledger_account as known where known.id = new.id)
            then raise(abort, 'offpath: the ledger has this account')
        when
            new.balance <> 0 or new.raised <> 0 or new.number <> 0
            or new.head <> '0000000000000000000000000000000000000000000000000000000000000000'
            then raise(abort, 'offpath: an account of the ledger begins empty')
    end;
end;

CREATE TRIGGER offpath_ledger_account_fixed
before update of id, kind, currency, side, guarded on offpath_ledger_account
begin
    select raise(abort, 'offpath: what an account of the ledger is does not change');
end;

CREATE TRIGGER offpath_ledger_account_moved
before update of balance, raised, head, number on offpath_ledger_account
when
    new.number <> old.number + 1
    or not exists (
        select 1 from offpath_ledger_link as link
        where
            link.account = new.id and link.number = new.number and link.hash = new.head
            and link.balance = new.balance and link.raised = new.raised
    )
begin
    select raise(abort, 'offpath: an account of the ledger is as its last link says');
end;

CREATE TRIGGER offpath_ledger_account_kept before delete on offpath_ledger_account
begin
    select raise(abort, 'offpath: an account of the ledger is not removed');
end;

CREATE TRIGGER offpath_ledger_draft_new before insert on offpath_ledger_draft
when exists (select 1 from offpath_ledger_posting as posting where posting.seq = new.id >> 16)
begin
    select raise(abort, 'offpath: this posting of the ledger is sealed');
end;

CREATE TRIGGER offpath_ledger_draft_fixed before update on offpath_ledger_draft
begin
    select raise(abort, 'offpath: a draft of the ledger does not change');
end;

CREATE TRIGGER offpath_ledger_link_new before insert on offpath_ledger_link
when
    not exists (select 1 from offpath_ledger_draft as draft where draft.id = new.id)
    or not exists (
        select 1 from offpath_ledger_posting as posting where posting.seq = new.id >> 16
    )
begin
    select raise(abort, 'offpath: a link of the ledger comes with its posting only');
end;

CREATE TRIGGER offpath_ledger_posting_seal after insert on offpath_ledger_posting
begin
    select case
        when
            new.seq <> 1
            and not exists (
                select 1 from offpath_ledger_posting as before where before.seq = new.seq - 1
            )
            then raise(abort, 'offpath: postings of the ledger are numbered without a gap')
        when count(*) = 0
            then raise(abort, 'offpath: a posting of the ledger has links')
        when count(distinct draft.account) <> count(*)
            then raise(abort, 'offpath: a posting of the ledger has one link for each account')
        when
            sum(
                length(draft.hash) <> 64
                or draft.number is not account.number + 1
                or draft.balance is not account.balance + account.side * draft.amount
                or (
                    draft.entries is not null
                    and draft.amount
                    is not (select sum(one.value) from json_each(draft.entries) as one)
                )
            ) > 0
            then raise(abort, 'offpath: a link of the ledger follows the last one of its account')
        when sum(account.guarded and draft.balance < 0) > 0
            then raise(abort, 'offpath: a guarded account of the ledger is never below zero')
        -- Both currencies together, and one of them. By halves of 32 bits: a sum on the way may
        -- have more than 64.
        when
            sum(draft.amount & 4294967295) & 4294967295 <> 0
            or sum(draft.amount >> 32) + (sum(draft.amount & 4294967295) >> 32) <> 0
            or sum(draft.amount & 4294967295) filter (where account.currency = 'USD')
            & 4294967295 <> 0
            or sum(draft.amount >> 32) filter (where account.currency = 'USD')
            + (sum(draft.amount & 4294967295) filter (where account.currency = 'USD') >> 32) <> 0
            then raise(abort, 'offpath: entries of a posting sum to zero in each currency')
    end
    from offpath_ledger_draft as draft
    left join offpath_ledger_account as account on account.id = draft.account
    where draft.id between new.seq * 65536 and new.seq * 65536 + 65535;
    insert into offpath_ledger_link (
        id, account, number, amount, entries, balance, raised, prev, hash
    )
    select
        draft.id, draft.account, draft.number, draft.amount, draft.entries, draft.balance,
        account.raised + max(account.side * draft.amount, 0), account.head, draft.hash
    from offpath_ledger_draft as draft
    cross join offpath_ledger_account as account
    where
        draft.id between new.seq * 65536 and new.seq * 65536 + 65535
        and account.id = draft.account;
    update offpath_ledger_account set
        balance = link.balance,
        raised = link.raised,
        head = link.hash,
        number = link.number
    from offpath_ledger_link as link
    where
        link.id between new.seq * 65536 and new.seq * 65536 + 65535
        and offpath_ledger_account.id = link.account;
    delete from offpath_ledger_draft
    where id between new.seq * 65536 and new.seq * 65536 + 65535;
end;

CREATE TRIGGER offpath_ledger_posting_fixed before update on offpath_ledger_posting
begin
    select raise(abort, 'offpath: a posting of the ledger does not change');
end;

CREATE TRIGGER offpath_ledger_link_fixed before update on offpath_ledger_link
begin
    select raise(abort, 'offpath: a link of the ledger does not change');
end;

CREATE TRIGGER offpath_ledger_side_changed before update on offpath_ledger_side
when
    new.kind <> old.kind or new.id <> old.id
    or new.version < old.version + (new.unique_key is not null or old.unique_key is null)
begin
    select raise(abort, 'offpath: each write raises the version of a row of the ledger');
end;

CREATE TRIGGER offpath_ledger_checkpoint_new before insert on offpath_ledger_checkpoint
when
    exists (
        select 1 from offpath_ledger_checkpoint as known
        where known.id = new.id or known.seq = new.seq
    )
    or new.prev is not (
        select last.id from offpath_ledger_checkpoint as last order by last.seq desc limit 1
    )
begin
    select raise(abort, 'offpath: a checkpoint of the ledger follows the last one');
end;

CREATE TRIGGER offpath_ledger_checkpoint_fixed before update on offpath_ledger_checkpoint
begin
    select raise(abort, 'offpath: a checkpoint of the ledger does not change');
end;

CREATE TRIGGER offpath_ledger_checkpoint_kept before delete on offpath_ledger_checkpoint
begin
    select raise(abort, 'offpath: a checkpoint of the ledger is not removed');
end;

CREATE INDEX offpath_job_deadline on offpath_job (deadline)
where deadline is not null and finished_at is null;

CREATE TABLE offpath_signal_left (
    target text not null,
    event text not null,
    primary key (target, event)
) strict, without rowid;

CREATE TRIGGER offpath_job_left_signal after update of finished_at on offpath_job
when old.called_target is not null and old.finished_at is null and new.finished_at is not null
begin
    insert into offpath_signal_left (target, event)
    select old.called_target, old.called_event
    where not exists (
        select 1 from offpath_signal_left as known
        where known.target = old.called_target and known.event = old.called_event
    );
end;

CREATE TABLE "offpath_gate_watch" (
    job text not null,
    gate text not null,
    place integer not null,
    -- The job was not there when the gate was made.
    early integer not null default 0,
    outcome text check (outcome = 'succeeded' or outcome = 'failed'), readable integer generated always as (1) virtual
    constraint gate_watch_place_readable check (place between 0 and 4611686018427387904)
    constraint gate_watch_early_readable check (early between 0 and 1), led integer not null default 0
    constraint gate_watch_led_readable check (led between 0 and 1),
    unique (job, gate)
) strict;

CREATE INDEX offpath_gate_watch_gate on offpath_gate_watch (gate, place);

CREATE INDEX offpath_gate_watch_early on offpath_gate_watch (job)
where early = 1;

CREATE TRIGGER offpath_job_awaited after insert on offpath_job
when exists (
    select 1 from offpath_gate_watch as early where early.early = 1 and early.job = new.id
)
begin
    update offpath_job set watched = 1 where seq = new.seq;
end;

CREATE TABLE offpath_finding (
    id text primary key,
    name text not null,
    text text not null,
    since integer not null,
    seen_at integer not null,
    accepted_at integer,
    reason text,
    -- Only of those that were accepted: they are kept for audits.
    ended_at integer, readable integer generated always as (1) virtual
    constraint finding_since_readable check (since between -62135596800000000 and 253402300799999999)
    constraint finding_seen_at_readable check (seen_at between -62135596800000000 and 253402300799999999)
    constraint finding_accepted_at_readable check (accepted_at between -62135596800000000 and 253402300799999999)
    constraint finding_ended_at_readable check (ended_at between -62135596800000000 and 253402300799999999),
    check ((accepted_at is null) = (reason is null))
) strict, without rowid;

CREATE UNIQUE INDEX offpath_finding_standing on offpath_finding (name) where ended_at is null;

CREATE INDEX offpath_ledger_posting_request on offpath_ledger_posting (seq)
where instr(meta, '"kind":"requestPayout"') > 0;

CREATE TRIGGER offpath_ledger_side_kept before delete on offpath_ledger_side
begin
    select raise(abort, 'offpath: a row of the ledger is not removed');
end;

CREATE TRIGGER offpath_ledger_posting_kept before delete on offpath_ledger_posting
when
    exists (
        select 1 from offpath_ledger_link as link
        where link.id between old.seq * 65536 and old.seq * 65536 + 65535
    )
begin
    select raise(abort, 'offpath: a posting of the ledger is not removed');
end;

CREATE TRIGGER offpath_ledger_side_new before insert on offpath_ledger_side
when
    exists (
        select 1 from offpath_ledger_side as known
        where known.kind = new.kind and known.id = new.id
    )
    or exists (
        select 1 from offpath_ledger_side as known
        where
            known.kind = new.kind and known.unique_key = new.unique_key
            and new.unique_key is not null
    )
    or exists (select 1 from offpath_ledger_side as known where known.seq = new.seq)
begin
    select raise(abort, 'offpath: the ledger has this row');
end;

CREATE TRIGGER offpath_ledger_side_keyed before update of unique_key on offpath_ledger_side
when
    new.unique_key is not null
    and exists (
        select 1 from offpath_ledger_side as known
        where known.kind = new.kind and known.unique_key = new.unique_key and known.seq <> new.seq
    )
begin
    select raise(abort, 'offpath: another row of the ledger has this key');
end;

CREATE INDEX offpath_job_died on offpath_job (finished_at)
where state = 'dead';

CREATE INDEX offpath_letter_made on offpath_letter (created_at)
where resolved_at is null;

CREATE TRIGGER offpath_ledger_account_chart before insert on offpath_ledger_account
when
    case
        when new.id = 'platform:' || new.kind then
            new.side = case
                when new.kind in (
                    'trust_cash', 'usd_clearing', 'revenue_usd', 'stored_value', 'receivable',
                    'opening_equity', 'promo_float'
                ) then 1
                when new.kind in (
                    'payout_reserve', 'settlement_accrual', 'revenue', 'netting_clearing'
                ) then -1
            end
            and new.currency = case
                when new.kind in ('trust_cash', 'usd_clearing', 'revenue_usd') then 'USD'
                else 'CREDIT'
            end
            and new.guarded = (new.kind in ('payout_reserve', 'settlement_accrual'))
        else
            new.kind in ('spendable', 'earned', 'promo', 'escrow', 'owed')
            and substr(new.id, -length(new.kind) - 1) = ':' || new.kind
            and substr(new.id, 1, 9) <> 'platform:'
            and new.currency = 'CREDIT'
            and new.side = case when new.kind = 'owed' then 1 else -1 end
            and new.guarded = 1
    end is not 1
begin
    select raise(abort, 'offpath: the chart of the ledger knows no such account');
end;

CREATE INDEX offpath_ledger_account_owed on offpath_ledger_account (id) where kind = 'owed';

CREATE INDEX offpath_job_suspected on offpath_job (suspected)
where suspected is not null and finished_at is null;

CREATE TRIGGER offpath_job_tags_readable before insert on offpath_job
when case
    when json_valid(new.tags)
        then exists (select 1 from json_each(new.tags) as tag where tag.type <> 'text')
end
begin
    select raise(abort, 'offpath: tags are texts');
end;

CREATE TRIGGER offpath_job_tags_readable_still before update of tags on offpath_job
when case
    when json_valid(new.tags)
        then exists (select 1 from json_each(new.tags) as tag where tag.type <> 'text')
end
begin
    select raise(abort, 'offpath: tags are texts');
end;

CREATE TABLE offpath_declaration (
    kind text not null,
    name text not null,
    fingerprint text not null,
    first_seen integer not null
        constraint declaration_first_seen_readable
        check (first_seen between -62135596800000000 and 253402300799999999),
    last_seen integer not null
        constraint declaration_last_seen_readable
        check (last_seen between -62135596800000000 and 253402300799999999),
    primary key (kind, name, fingerprint)
) strict, without rowid;

CREATE TABLE offpath_action (
    id text primary key,
    at integer not null
        constraint action_at_readable
        check (at between -62135596800000000 and 253402300799999999),
    actor text not null,
    via text not null,
    verb text not null,
    target text not null,
    options text not null,
    note text not null,
    state text not null default 'running'
        constraint action_state check (state in ('running', 'done', 'failed', 'stopped')),
    cursor text,
    changed integer not null default 0 constraint action_changed_readable check (changed between 0 and 4611686018427387903),
    unchanged integer not null default 0
        constraint action_unchanged_readable check (unchanged between 0 and 4611686018427387903),
    reasons text not null default '{}'
        constraint action_reasons_readable
        check (iif(json_valid(reasons), json_type(reasons) = 'object', 0)),
    error text,
    resumed integer not null default 0
        constraint action_resumed_readable check (resumed in (0, 1)),
    holder text not null,
    held_until integer not null
        constraint action_held_until_readable
        check (held_until between -62135596800000000 and 253402300799999999),
    finished_at integer
        constraint action_finished_at_readable
        check (finished_at between -62135596800000000 and 253402300799999999),
    constraint action_ended check ((state = 'running') = (finished_at is null))
) strict, without rowid;

CREATE INDEX offpath_action_running on offpath_action (held_until) where state = 'running';

CREATE INDEX offpath_action_age on offpath_action (at) where state <> 'running';

CREATE VIEW offpath_router_status as
select
    r.name as router,
    r.domain,
    c.partition,
    coalesce((select g.open from offpath_gate g where g.router = ''), 0) as master_open,
    coalesce((select g.open from offpath_gate g where g.router = r.name), 0) as router_open,
    c.position,
    c.passed,
    c.ran_at as last_run_at,
    c.summary as last_run_summary,
    (
        select min(l.at)
        from offpath_log l
        where l.domain = r.domain
            and l.position > c.position
            and l.slot % r.partitions = c.partition
            and c.mark is null
    ) as oldest_unrouted_at,
    (
        select count(*) from offpath_letter t where t.router = r.name and t.resolved_at is null
    ) as open_letters
from offpath_router r
join offpath_cursor c on c.router = r.name;

CREATE VIEW offpath_router_attempts as
select
    a.router || ':' || a.route || ':' || a.event as idempotency_key,
    a.number as attempt_no,
    a.router,
    a.route,
    a.event,
    a.position,
    a.status,
    a.at
from offpath_attempt a;

CREATE VIEW offpath_router_letters as
select
    t.router || ':' || t.route || ':' || t.event as idempotency_key,
    t.number as attempt_no,
    t.id,
    t.router,
    t.route,
    t.event,
    t.position,
    t.reason,
    t.created_at,
    t.resolved_at,
    t.resolution
from offpath_letter t;

CREATE INDEX offpath_job_ready on offpath_job (task, queue, priority desc, run_at, id, suspected)
where state = 'ready';

CREATE INDEX offpath_job_scheduled on offpath_job (task, queue, run_at)
where state = 'scheduled';

CREATE INDEX offpath_job_gate_open on offpath_job_gate (id) where state = 'open';

CREATE TABLE offpath_limit_part (
    key text not null,
    line text not null,
    cost integer not null check (cost > 0 and cost < 4611686018427387904),
    primary key (key, line)
) strict, without rowid;

CREATE INDEX offpath_limit_part_line on offpath_limit_part (line);

CREATE TRIGGER offpath_limit_shared after update of admitted on offpath_limit
when new.parts > 0 and new.admitted <> old.admitted
begin
    update offpath_limit set shared = max(shared + (new.admitted - old.admitted) * (
        select part.cost from offpath_limit_part as part
        where part.key = offpath_limit.key and part.line = new.key
    ), 0)
    where key in (select part.key from offpath_limit_part as part where part.line = new.key);
end;

CREATE TRIGGER offpath_limit_line_gone after delete on offpath_limit
when old.parts > 0
begin
    update offpath_limit set shared = max(shared - old.admitted * (
        select part.cost from offpath_limit_part as part
        where part.key = offpath_limit.key and part.line = old.key
    ), 0)
    where key in (select part.key from offpath_limit_part as part where part.line = old.key);
    delete from offpath_limit_part where line = old.key;
end;

CREATE INDEX offpath_message_dead_place on offpath_message (state) where state = 'dead';

CREATE TABLE offpath_run (
    id text primary key,
    kind text not null constraint run_kind check (kind = 'sweep' or kind = 'settlement'),
    name text not null,
    at integer not null
        constraint run_at_readable check (at between -62135596800 and 253402300799),
    body text not null
        constraint run_body_readable
        check (iif(json_valid(body), json_type(body) = 'object', 0))
) strict, without rowid;

CREATE INDEX offpath_run_name on offpath_run (kind, name, id);

CREATE INDEX offpath_job_child on offpath_job (parent)
where parent is not null and parent <> group_id;

CREATE TABLE "offpath_stat" (
    step integer not null
        constraint stat_step check (step in (10, 60, 300, 900, 3600, 86400)),
    at integer not null
        constraint stat_at_readable check (at between -62135596800 and 253402300799),
    source text not null,
    body text not null
        constraint stat_body_readable
        check (iif(json_valid(body), json_type(body) = 'object', 0)), sums text
constraint stat_sums_readable
check (iif(sums is null, 1, iif(json_valid(sums), json_type(sums) = 'object', 0))),
    primary key (step, at, source)
) strict, without rowid;

CREATE TABLE offpath_ledger_trim (
    number integer primary key,
    -- The boundary: the last posting that the checkpoint covers.
    posting integer not null check (posting > 0),
    -- The time of that posting, and the time of the trim's begin.
    until integer not null,
    at integer not null,
    -- The last posting that was looked at.
    done integer not null default 0 check (done between 0 and posting),
    postings integer not null default 0,
    links integer not null default 0,
    checkpoint text not null,
    file text not null,
    archive text not null,
    kept text not null,
    kid text not null,
    signature text not null
, moved integer) strict;

CREATE TABLE offpath_ledger_retired (
    id text primary key,
    trim integer not null,
    -- The whole posting as JSON, where a row that was open named it.
    posting text
) strict, without rowid;

CREATE INDEX offpath_ledger_retired_kept on offpath_ledger_retired (trim, id)
where posting is not null;

CREATE VIEW offpath_ledger_whole as
select
    posting.seq as seq, posting.id as id,
    json_object(
        'id', posting.id, 'meta', posting.meta, 'at', posting.at, 'seq', posting.seq, 'links', (
            select
                json_group_array(
                    json_object(
                        'account', one.account, 'number', one.number, 'posting', posting.id,
                        'amount', one.amount,
                        'entries', json(coalesce(one.entries, json_array(one.amount))),
                        'balance', one.balance, 'raised', one.raised, 'prev', one.prev,
                        'hash', one.hash, 'source', posting.source, 'at', posting.at
                    )
                )
            from (
                select * from offpath_ledger_link as link
                where link.id between posting.seq * 65536 and posting.seq * 65536 + 65535
                order by link.id
            ) as one
        )
    ) as whole
from offpath_ledger_posting as posting;

CREATE TRIGGER offpath_ledger_trim_new before insert on offpath_ledger_trim
when
    new.done <> 0
    or new.number <> 1 + coalesce((select max(last.number) from offpath_ledger_trim as last), 0)
    or exists (
        select 1 from offpath_ledger_trim as last
        where last.done < last.posting or last.posting >= new.posting
    )
    or not exists (
        select 1 from offpath_ledger_checkpoint as sealed
        where sealed.id = new.checkpoint and sealed.posting = new.posting
    )
begin
    select raise(abort, 'offpath: a trim of the ledger follows the last one');
end;

CREATE TRIGGER offpath_ledger_trim_fixed
before update of number, posting, until, at, checkpoint, file, archive, kept, kid, signature
on offpath_ledger_trim
begin
    select raise(abort, 'offpath: what a trim of the ledger is does not change');
end;

CREATE TRIGGER offpath_ledger_trim_back before update of done on offpath_ledger_trim
when new.done < old.done
begin
    select raise(abort, 'offpath: a trim of the ledger does not go back');
end;

CREATE TRIGGER offpath_ledger_trim_kept before delete on offpath_ledger_trim
begin
    select raise(abort, 'offpath: a trim of the ledger is not removed');
end;

CREATE TRIGGER offpath_ledger_retired_fixed before update on offpath_ledger_retired
begin
    select raise(abort, 'offpath: a retired posting of the ledger does not change');
end;

CREATE TRIGGER offpath_ledger_retired_kept before delete on offpath_ledger_retired
begin
    select raise(abort, 'offpath: a retired posting of the ledger is not removed');
end;

CREATE TRIGGER offpath_ledger_link_kept before delete on offpath_ledger_link
when
    old.account = 'platform:netting_clearing'
    or not exists (
        select 1
        from offpath_ledger_posting as posting
        cross join offpath_ledger_retired as gone
        where
            posting.seq = old.id >> 16 and gone.id = posting.id
            and posting.seq <= (select max(trim.posting) from offpath_ledger_trim as trim)
    )
    or exists (
        select 1 from offpath_ledger_link as link
        where link.account = old.account and link.number < old.number
    )
    or coalesce(
        (
            select link.id >> 16 from offpath_ledger_link as link
            where link.account = old.account and link.number > old.number
            order by link.number
            limit 1
        ) > (select max(trim.posting) from offpath_ledger_trim as trim),
        1
    )
begin
    select raise(abort, 'offpath: a link of the ledger is not removed');
end;

CREATE TRIGGER offpath_ledger_retired_new before insert on offpath_ledger_retired
when
    exists (select 1 from offpath_ledger_retired as known where known.id = new.id)
    or not exists (
        select 1 from offpath_ledger_posting as posting
        where
            posting.id = new.id
            and case
                when new.posting is null then
                    posting.seq <= (select max(trim.posting) from offpath_ledger_trim as trim)
                    and exists (
                        select 1 from offpath_ledger_link as link
                        where
                            link.id between posting.seq * 65536 and posting.seq * 65536 + 65535
                            and link.account <> 'platform:netting_clearing'
                    )
                else
                    new.trim > coalesce(
                        (select max(last.number) from offpath_ledger_trim as last), 0
                    )
                    and new.posting = (
                        select one.whole from offpath_ledger_whole as one
                        where one.seq = posting.seq
                    )
            end
    )
begin
    select raise(abort, 'offpath: a posting of the ledger is not retired so');
end;

CREATE TRIGGER offpath_ledger_posting_new before insert on offpath_ledger_posting
when
    exists (select 1 from offpath_ledger_posting as known where known.id = new.id)
    or exists (select 1 from offpath_ledger_posting as known where known.seq = new.seq)
    or exists (select 1 from offpath_ledger_retired as gone where gone.id = new.id)
    -- -1 is what a number that is still to be given looks like
    or (
        new.seq <> -1
        and new.seq <= (select max(trim.posting) from offpath_ledger_trim as trim)
    )
begin
    select raise(abort, 'offpath: the ledger has this posting');
end;
