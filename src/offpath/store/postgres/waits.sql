-- part: waits_over
-- True if there is something to give up, to repair or to remove.
exists (select from offpath.signal s where s.missed and s.expires_at > clock.now)
or exists (
    select from offpath.job j where j.state = 'blocked' and j.blocked_until <= clock.now
)
or exists (
    select from offpath.job j
    where j.state in ('scheduled', 'ready') and j.deadline <= clock.now
)
or exists (select from offpath.job j where j.watched = 1 and j.finished_at is not null)
or exists (select from offpath.signal s where s.expires_at <= clock.now)
or exists (
    select from offpath.job_gate g
    where g.behind and g.state in ('fired', 'unsatisfiable', 'timed_out')
)
or exists (select from offpath.unseen)

-- name: found_sleeper
-- This signal has woken somebody.
update offpath.signal s set missed = false where s.id = :id::text::uuid

-- name: missed_signals
-- Signals that should have woken somebody.
select s.id::text, s.target, s.event, 1
from offpath.signal s
where s.missed and s.expires_at > coalesce(:now::text::timestamptz, clock_timestamp())
order by s.id
limit :limit::int

-- name: anything_over
-- A row if there is something to give up, to repair or to remove: one look into each small index.
select 1
from (select coalesce(:now::text::timestamptz, clock_timestamp()) as now offset 0) as clock
where /* part: waits_over */

-- name: glance
-- Which passes may find something: over workers, over waits, over limits. Each is one look into what is
-- small while all is well; what the passes do is asked by themselves.
with recursive clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
/* part: presence_locks */
holders (worker) as (
    /* part: job_holders */
)
select
    exists (
        select from offpath.worker w
        where w.gone_at is null and w.expires_at <= clock.now
    )
    or exists (
        select from offpath.worker w
        where w.presence is not null
            and w.expires_at > clock.now
            and (
                w.missing_since is not null
                or w.presence not in (select l.key from locks l)
            )
    )
    or exists (
        select from holders h
        where not exists (
            select from offpath.worker w where w.id = h.worker and w.expires_at > clock.now
        )
    ),
    /* part: waits_over */
        or exists (select from offpath.job_group g where g.to_close)
        or exists (
            select from offpath.job j
            where j.has_undo and j.finished_at is not null and j.state in ('dead', 'cancelled')
        ),
    exists (select from offpath.limit_nudge)
    or exists (select from offpath.limit_key k where k.waiting),
    not :work::boolean
    or exists (select from offpath.job j where j.state = 'ready')
    -- The first one, by the index of times: another index might have all of them walked.
    or coalesce(
        (select j.run_at from offpath.job j where j.state = 'scheduled' order by j.run_at limit 1)
            <= clock.now + :ahead::double precision * interval '1 second',
        false
    ),
    exists (
        select from offpath.schedule s
        where not s.paused
            and s.next_at <= clock.now + :ahead::double precision * interval '1 second'
    )
from clock

-- name: due_blocked
-- Blocked jobs whose waiting is over, and that nobody else is about to change, with their gates.
select j.id::text, j.gate::text, g.state
from offpath.job j
left join offpath.job_gate g on g.id = j.gate
where j.state = 'blocked'
    and j.blocked_until <= (select coalesce(:now::text::timestamptz, clock_timestamp()))
order by j.blocked_until
limit :limit::int
for update of j skip locked

-- name: due_queued
-- Queued jobs whose deadline has passed, and that nobody else is about to change.
select j.id::text
from offpath.job j
where j.state in ('scheduled', 'ready')
    and j.deadline <= (select coalesce(:now::text::timestamptz, clock_timestamp()))
order by j.deadline
limit :limit::int
for update skip locked

-- name: uncounted
-- Watched jobs that have ended without being counted in their gates.
select j.id::text, case j.state when 'succeeded' then 1 else -1 end
from offpath.job j
where j.watched = 1 and j.finished_at is not null
order by j.id
limit :limit::int
for update skip locked

-- name: expire_signals
-- Signals whose time is over are forgotten.
delete from offpath.signal s
where s.id = any (array(
    select o.id
    from offpath.signal o
    where o.expires_at <= (select coalesce(:now::text::timestamptz, clock_timestamp()))
    order by o.expires_at
    limit :limit::int
    for update skip locked
))

-- name: lock_gates_of
-- Keeps still, in one order, the gates at which these jobs wait and those that watch them.
select 1
from offpath.job_gate g
where g.id = any (array(
        select j.gate
        from offpath.job j
        where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
            and j.gate is not null
        union all
        select w.gate
        from offpath.gate_watch w
        where w.job = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
            and w.outcome is null
    ))
order by g.id
for update

-- name: time_out_gates
-- The gates of these jobs, which are held, whose time is over.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
held as materialized (
    select g.id
    from offpath.job_gate g
    where g.id = any (array(
            select j.gate
            from offpath.job j
            where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
                and j.state || '' = 'blocked'
                and j.reason = 'gate'
                and (j.deadline is null or j.deadline > (select clock.now from clock))
        ))
        and g.state = 'open'
        and g.deadline <= (select clock.now from clock)
    order by g.id
    for update
)
update offpath.job_gate g
set state = 'timed_out'
from held h
where g.id = h.id

-- name: judge_waits
-- What becomes of these blocked or queued jobs, which are held: with their deadline or with their
-- gate they die, with their wait for a signal they become due.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
judged as materialized (
    select j.id, j.attempt, j.deliveries, case
        when j.deadline <= (select clock.now from clock) then 'deadline'
        when j.state || '' <> 'blocked' then null
        when j.reason = 'signal' then 'woken'
        when j.reason = 'gate' and g.state = 'timed_out' then 'gate_timeout'
        when j.reason = 'gate' and g.state = 'unsatisfiable' then 'unsatisfiable'
    end as fate
    from offpath.job j
    left join offpath.job_gate g on g.id = j.gate
    where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
        and j.state || '' in ('blocked', 'scheduled', 'ready')
)
select d.id::text, d.fate, d.attempt, d.deliveries
from judged d
where d.fate is not null

-- name: give_up
-- Ends what these jobs, which are held, wait for, as it was judged.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
update offpath.job j
set state = case when d.fate = 'woken' then 'ready' else 'dead' end,
    reason = nullif(d.fate, 'woken'),
    run_at = case when d.fate = 'woken' then clock.now else j.run_at end,
    watched = case when d.fate <> 'woken' and j.watched = 1 then 2 else j.watched end,
    blocked_until = null,
    finished_at = case when d.fate <> 'woken' then clock.now end,
    expires_at = case
        when d.fate <> 'woken' then clock.now + :keep::double precision * interval '1 second'
    end,
    unique_held = case
        when j.unique_key is null then false
        else offpath.may_hold(
            j.id, j.unique_key, j.unique_states, j.unique_until,
            case when d.fate = 'woken' then 'queued' else 'dead' end, clock.now
        )
    end
from jsonb_to_recordset(:batch::text::jsonb) as d (id uuid, fate text)
cross join clock
where j.id = d.id
returning
    j.id::text, j.task, j.queue, coalesce(j.group_id, j.id::text), j.state, j.attempt, j.parent,
    j.grouped::int, j.announce, j.watched, j.redrives, j.reason
