-- Messages, the event log with its routers, webhook endpoints, announced jobs, gone workers.
--
-- Times are whole microseconds since 1970-01-01 UTC.

create table offpath_message (
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
) strict;

create index offpath_message_due on offpath_message (box, stream, leads, due_at)
where state = 'pending';

create index offpath_message_turn on offpath_message (box, stream, key, position)
where state = 'pending' and key is not null;

create index offpath_message_held on offpath_message (box, stream)
where holder is not null;

create index offpath_message_dead on offpath_message (box, stream, finished_at)
where state = 'dead';

create index offpath_message_expiry on offpath_message (expires_at)
where expires_at is not null;

-- Of one source, a key is accepted once, for as long as its message is kept.
create unique index offpath_message_accepted on offpath_message (stream, key)
where box = 'in';

create trigger offpath_message_new after insert on offpath_message
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

create trigger offpath_message_ended after update of state on offpath_message
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

create trigger offpath_message_revived after update of state on offpath_message
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

-- One writer at a time, so the order of positions is the order of commits.
create table offpath_log (
    position integer primary key autoincrement,
    id text not null unique,
    domain text not null,
    type text not null,
    stream text not null,
    key text,
    slot integer not null check (slot >= 0),
    at integer not null,
    payload text not null
) strict;

create index offpath_log_domain on offpath_log (domain, position);

create index offpath_log_at on offpath_log (at);

create table offpath_router (
    name text primary key check (name <> ''),
    domain text not null,
    partitions integer not null check (partitions >= 1),
    created_at integer not null
) strict, without rowid;

-- By router; that of all routers is ''. A gate without a row is closed.
create table offpath_gate (
    router text primary key,
    open integer not null check (open = 0 or open = 1)
) strict, without rowid;

create table offpath_route (
    router text not null,
    name text not null,
    place integer not null,
    type text not null,
    stream text not null,
    deliver text not null,
    enabled integer not null default 0 check (enabled = 0 or enabled = 1),
    dry_run integer not null default 1 check (dry_run = 0 or dry_run = 1),
    primary key (router, name)
) strict, without rowid;

create table offpath_cursor (
    router text not null,
    partition integer not null check (partition >= 0),
    start integer not null check (start >= 0),
    position integer not null check (position >= 0),
    holder text,
    lease_until integer check ((lease_until is not null) = (holder is not null)),
    passed integer not null default 0 check (passed >= 0),
    ran_at integer,
    summary text,
    primary key (router, partition)
) strict, without rowid;

create table offpath_attempt (
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
    at integer not null,
    primary key (router, event, number)
) strict, without rowid;

create index offpath_attempt_position on offpath_attempt (router, position, number);

create table offpath_letter (
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
) strict, without rowid;

create index offpath_letter_position on offpath_letter (router, position);

create index offpath_letter_event on offpath_letter (router, event);

create table offpath_endpoint (
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
) strict, without rowid;

alter table offpath_worker add column report text;

alter table offpath_worker add column gone_at integer;

-- Which changes of state become messages, as bits: 1 queued, 2 running, 4 succeeded, 8 dead,
-- 16 cancelled; 32 tells details.
alter table offpath_job add column announce integer not null default 0;

-- When it last came to wait again. Older versions do not write it.
alter table offpath_job add column changed_at integer;

create trigger offpath_job_announced_new after insert on offpath_job
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

create trigger offpath_job_announced_change after update of state on offpath_job
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

-- A failure is written after the change that it caused, in the same transaction.
create trigger offpath_failure_announced after insert on offpath_failure
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
