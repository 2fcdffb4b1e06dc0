-- Flow control: limits by key, fair keys, pauses.
--
-- Times are whole microseconds since 1970-01-01 UTC.

alter table offpath_job add column limit_key text;

-- Whose job it is; NULL and never '' when it is nobody's.
alter table offpath_job add column fair_key text;

-- Its place among the held ones once it was sent behind others: priority and time; NULL: its own.
alter table offpath_job add column turn integer;

alter table offpath_job add column turn_at integer;

-- Jobs that wait to be admitted, in that order.
create index offpath_job_held on offpath_job (
    limit_key, queue, coalesce(turn, priority) desc, coalesce(turn_at, run_at), id
)
where state = 'blocked' and reason = 'limit';

-- Whether a key is needed; not touched when a job moves on.
create index offpath_job_limited on offpath_job (limit_key)
where limit_key is not null;

-- Admitted jobs that nobody has taken.
create index offpath_job_untaken on offpath_job (limit_key, changed_at)
where state = 'ready' and limit_key is not null;

-- Held jobs are counted by the index above.
create index offpath_job_blocked on offpath_job (queue)
where state = 'blocked' and reason <> 'limit';

create index offpath_job_share on offpath_job (fair_key)
where state = 'running' and fair_key is not null;

create table offpath_limit (
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
) strict, without rowid;

create index offpath_limit_forget on offpath_limit (forget_at);

create table offpath_queue_pause (
    name text primary key,
    until integer
) strict, without rowid;

-- Whatever moves a limited job, its key's count follows.
create trigger offpath_job_left after update of state, limit_key on offpath_job
when
    old.limit_key is not null
    and (old.state = 'ready' or old.state = 'running')
    and not (
        (new.state = 'ready' or new.state = 'running') and new.limit_key is old.limit_key
    )
begin
    update offpath_limit set admitted = admitted - 1 where key = old.limit_key;
end;

create trigger offpath_job_let_in after update of state, limit_key on offpath_job
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

-- The one way for a limited job to become ready is to be admitted, which is a change from blocked
-- with reason limit; a running one that is ready again keeps its room. All else that makes it ready
-- (its time has come, its gate has fired, a worker of the version before) makes it wait for that.
-- It is counted in first, since sending it back counts it out.
create trigger offpath_job_limited after update of state on offpath_job
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
