-- part: counted_ends
-- The ends are noted at the watches and summed up in their gates, which are held.
counted as (
    update offpath.gate_watch w
    set outcome = case
            when w.job in (select jsonb_array_elements_text(:failed::text::jsonb)::uuid)
                then 'failed'
            else 'succeeded'
        end
    where w.ctid = any (array(select o.place from open_watches o))
        and (w.gate in (select h.id from held h)) is true
        and w.outcome is null
    returning w.gate, w.outcome
),
sums as materialized (
    select
        c.gate,
        count(*) filter (where c.outcome = 'succeeded') as succeeded,
        count(*) filter (where c.outcome = 'failed') as failed
    from counted c
    group by c.gate
)
update offpath.job_gate g
set succeeded = g.succeeded + s.succeeded, failed = g.failed + s.failed
from sums s
where g.id = s.gate and g.id = any (array(select s.gate from sums s))
returning g.id::text, g.need, g.counting, g.total, g.succeeded, g.failed

-- part: open_watches
-- The watches of ended jobs that have not counted them yet.
with open_watches as materialized (
    select w.ctid as place, w.gate
    from offpath.gate_watch w
    where w.job = any (array(
            select jsonb_array_elements_text(:succeeded::text::jsonb)::uuid
            union all
            select jsonb_array_elements_text(:failed::text::jsonb)::uuid
        ))
        and w.outcome is null
),

-- part: line
-- Some jobs and those that died at gates over them, or over those, and so on ("line"); the gates that
-- watch them or at which they wait ("over_line").
with recursive line (job) as (
    select j.id
    from offpath.job j
    where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
    union
    select h.id
    from line l
    join offpath.gate_watch w on w.job = l.job
    join offpath.job_gate g on g.id = w.gate
    join offpath.job h on h.gated_by = g.id
    where /* part: may_die */
        and h.gate is not null
),
over_line (gate) as (
    select w.gate
    from line l
    join offpath.gate_watch w on w.job = l.job
    union
    select j.gate
    from line l
    join offpath.job j on j.id = l.job
    where j.gate is not null
)

-- part: may_die
-- A gate whose jobs have died at it, or may die before its row is held.
g.counting = 'succeeded'
and (g.state = 'unsatisfiable' or (g.state = 'open' and g.need < g.total))

-- name: add_gates
-- New gates, with what of the watched jobs has ended already. One that is there stays as it is.
insert into offpath.job_gate (id, deadline, need, total, succeeded, failed, counting)
select
    b.id,
    coalesce(:now::text::timestamptz, clock_timestamp()) + b.timeout * interval '1 second',
    b.need, b.total, b.succeeded, b.failed, b.counting
from jsonb_to_recordset(:batch::text::jsonb) as b (
    id uuid, timeout double precision, need bigint, total bigint, succeeded bigint, failed bigint,
    counting text
)
order by b.id
on conflict (id) do nothing
returning id::text

-- name: add_watches
-- What new gates watch. Of a job that has ended "known" says how, of one that is not there "early".
with watched as materialized (
    select (o.watch ->> 0)::uuid as job, b.id as gate, o.n, o.watch ->> 1 as known, b.led
    from jsonb_to_recordset(:batch::text::jsonb) as b (id uuid, led boolean, jobs jsonb)
    cross join lateral jsonb_array_elements(b.jobs) with ordinality as o (watch, n)
),
unseen as (
    insert into offpath.unseen (id) select distinct w.job from watched w where w.known = 'early'
)
insert into offpath.gate_watch (job, gate, n, early, outcome, led)
select
    w.job, w.gate, w.n, coalesce(w.known = 'early', false), nullif(w.known, 'early'), w.led
from watched w

-- name: gates_led_on
-- The open gates that watch these jobs with all that they lead to.
select g.id::text, w.job::text
from offpath.gate_watch w
join offpath.job_gate g on g.id = w.gate
where w.job = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
    and w.led
    and w.outcome is null
    and g.state = 'open'

-- name: lead_on
-- Gates, which are held, watch these jobs, too, with all that they lead to. One that has ended counts.
insert into offpath.gate_watch (job, gate, n, led, outcome)
select
    b.job, b.gate, g.total + b.place, true,
    case
        when j.state = 'succeeded' then 'succeeded'
        when j.state in ('dead', 'cancelled') then 'failed'
    end
from (
    select (o.one ->> 'job')::uuid as job, (o.one ->> 'gate')::uuid as gate, o.place
    from jsonb_array_elements(:batch::text::jsonb) with ordinality as o (one, place)
) as b
join offpath.job_gate g on g.id = b.gate
join offpath.job j on j.id = b.job
where j.gate is distinct from b.gate
on conflict (job, gate) do nothing

-- name: sum_watches
-- Gates, which are held and watch more jobs than before, wait for all of them.
update offpath.job_gate g
set total = s.total, need = s.total, succeeded = s.succeeded, failed = s.failed
from (
    select
        w.gate,
        count(*) as total,
        count(*) filter (where w.outcome = 'succeeded') as succeeded,
        count(*) filter (where w.outcome = 'failed') as failed
    from offpath.gate_watch w
    where w.gate = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
    group by w.gate
) as s
where g.id = s.gate

-- name: known_gates
-- Those of these gates that are there, and what they are.
select g.id::text, g.state, offpath.micros(g.deadline)
from offpath.job_gate g
where g.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))

-- name: lock_gates
-- Keeps these gates still, and those that have yet to count jobs of "watching", in one order; says
-- what they are.
select g.id::text, g.state
from offpath.job_gate g
where g.id = any (array(
        select jsonb_array_elements_text(:ids::text::jsonb)::uuid
        union all
        select w.gate
        from offpath.gate_watch w
        where w.job = any (array(select jsonb_array_elements_text(:watching::text::jsonb)::uuid))
            and w.outcome is null
    ))
order by g.id
for update

-- name: wait_at_gates
-- New jobs at gates that were there before wait no longer than their gate.
update offpath.job j
set blocked_until = least(j.blocked_until, g.deadline)
from offpath.job_gate g
where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
    and g.id = j.gate
    and g.deadline is not null

-- name: count_gates
-- Counts ended jobs in the open gates that watch them; answers with the counts of these gates.
--
-- What is read here of other tables cannot have changed while it waited: a watch is only written by
-- who holds the row of its job.
/* part: open_watches */
held as materialized (
    select g.id
    from offpath.job_gate g
    where g.id = any (array(select o.gate from open_watches o)) and g.state = 'open'
    order by g.id
    for update
),
/* part: counted_ends */

-- name: count_gates_now
-- As count_gates, without waiting for a gate that somebody else holds.
/* part: open_watches */
held as materialized (
    select g.id
    from offpath.job_gate g
    where g.id = any (array(select o.gate from open_watches o)) and g.state = 'open'
    order by g.id
    for update skip locked
),
/* part: counted_ends */

-- name: note_counted
-- These ended jobs are counted wherever they are watched, unless a gate was skipped.
update offpath.job j
set watched = 2
where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
    and not exists (
        select
        from offpath.gate_watch w
        join offpath.job_gate g on g.id = w.gate
        where w.job = j.id and w.outcome is null and g.state = 'open'
    )

-- name: uncount_gates
-- Failed jobs that are put back are counted no more in gates that are still open, which are held.
with held as materialized (
    select g.id
    from offpath.job_gate g
    where g.id = any (array(
            select w.gate
            from offpath.gate_watch w
            where w.job = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
        ))
        and g.state = 'open'
    order by g.id
    for update
),
sums as materialized (
    select w.gate, count(*) as failed
    from offpath.gate_watch w
    where w.job = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
        and w.gate = any (array(select h.id from held h))
        and w.outcome = 'failed'
    group by w.gate
)
update offpath.job_gate g
set failed = g.failed - s.failed
from sums s
where g.id = s.gate and g.id = any (array(select s.gate from sums s))

-- name: uncount_watches
-- Forgets how these jobs failed: an open gate has counted them no more before, one that cannot fire
-- is counted afresh.
update offpath.gate_watch w
set outcome = null
where w.job = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
    and w.outcome = 'failed'
    and exists (
        select from offpath.job_gate g
        where g.id = w.gate and g.state in ('open', 'unsatisfiable')
    )

-- name: decide_gates
-- These gates, which are held, are open no more.
update offpath.job_gate g
set state = b.state
from jsonb_to_recordset(:batch::text::jsonb) as b (id uuid, state text)
where g.id = b.id

-- name: release_gated
-- Frees the jobs of gates that have fired: what counts from now counts from this moment. (The state
-- is compared so that no index of all that is blocked is taken for it.)
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
held as materialized (
    select j.id, coalesce(
        (select clock.now from clock) + j.gated_delay * interval '1 second', j.run_at
    ) as run_at
    from offpath.job j
    where j.gated_by = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
        and j.gate is not null
        and j.state || '' = 'blocked'
        and j.reason = 'gate'
    order by j.id
    for update skip locked
)
update offpath.job j
set state = case when h.run_at <= (select clock.now from clock) then 'ready' else 'scheduled' end,
    run_at = h.run_at,
    deadline = coalesce(
        j.deadline, (select clock.now from clock) + j.deadline_in * interval '1 second'
    ),
    gate = null,
    gated_delay = null,
    blocked_until = null,
    reason = null,
    unique_held = case
        when j.unique_key is null then false
        else offpath.may_hold(
            j.id, j.unique_key, j.unique_states, j.unique_until, 'queued',
            (select clock.now from clock)
        )
    end
from held h
where j.id = h.id
returning
    j.id::text, j.task, j.queue, coalesce(j.group_id, j.id::text), 'blocked', j.state, j.attempt,
    j.parent, j.grouped::int, j.announce, j.watched, j.redrives, null::text

-- name: end_gated
-- Ends the jobs of gates that cannot fire any more.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
held as materialized (
    select j.id, j.gated_by
    from offpath.job j
    where j.gated_by = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
        and j.gate is not null
        and j.state || '' = 'blocked'
        and j.reason = 'gate'
    order by j.id
    for update skip locked
),
ended as (
    update offpath.job j
    set state = 'dead',
        reason = case g.state when 'timed_out' then 'gate_timeout' else 'unsatisfiable' end,
        blocked_until = null,
        finished_at = (select clock.now from clock),
        expires_at = (select clock.now from clock) + :keep::double precision * interval '1 second',
        unique_held = case
            when j.unique_key is null then false
            else offpath.may_hold(
                j.id, j.unique_key, j.unique_states, j.unique_until, 'dead',
                (select clock.now from clock)
            )
        end
    from held h
    join offpath.job_gate g on g.id = h.gated_by
    where j.id = h.id
    returning
        j.id, j.task, j.queue, j.group_id, j.state, j.reason, j.attempt, j.parent, j.grouped,
        j.announce, j.watched, j.redrives, j.deliveries
),
failed as (
    insert into offpath.failure (job, delivery, attempt, at, kind, type, message)
    select
        e.id, e.deliveries, e.attempt, (select clock.now from clock), e.reason,
        case e.reason when 'gate_timeout' then 'GateTimeout' else 'GateUnsatisfiable' end,
        case e.reason
            when 'gate_timeout' then 'its gate had not fired when its time was over'
            else 'too many of the jobs that its gate watches have failed: redrive those, and it waits again'
        end
    from ended e
    on conflict (job, delivery) do nothing
)
select
    e.id::text, e.task, e.queue, coalesce(e.group_id, e.id::text), 'blocked', e.state, e.attempt,
    e.parent, e.grouped::int, e.announce, e.watched, e.redrives, e.reason
from ended e

-- name: note_behind
-- Remembers the gates of which a job could not be moved at once.
update offpath.job_gate g
set behind = left_over.any
from (
    select o.id, exists (
        select
        from offpath.job j
        where j.gated_by = o.id
            and j.gate is not null
            and j.state || '' = 'blocked'
            and j.reason = 'gate'
    ) as any
    from offpath.job_gate o
    where o.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
) as left_over
where g.id = left_over.id and g.behind <> left_over.any

-- name: drop_watches
-- What the gates have watched that go with the last job that they held.
delete from offpath.gate_watch w
where w.gate = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
    and not exists (select from offpath.job j where j.gated_by = w.gate)

-- name: drop_gates
-- A gate goes with the last job that it held.
delete from offpath.job_gate g
where g.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
    and not exists (select from offpath.job j where j.gated_by = g.id)

-- name: behind_gates
-- Gates that are decided and of which not all jobs were moved. One of another state, written by hand,
-- is left alone.
select g.id::text, g.state
from offpath.job_gate g
where g.id = any (array(
        select b.id from offpath.job_gate b where b.behind
        union
        select jsonb_array_elements_text(:fired::text::jsonb)::uuid
    ))
    and g.state in ('fired', 'unsatisfiable', 'timed_out')
order by g.id
limit :limit::int
for update skip locked

-- name: jobs_in_line
-- These jobs, those that died at gates over them along the chain, and the live ones that such gates
-- watch: while these are held none of them ends, so the counts of the gates stay as they are.
/* part: line */
select l.job::text
from line l
union
select s.id::text
from over_line o
join offpath.job_gate g on g.id = o.gate
join offpath.gate_watch w on w.gate = g.id
join offpath.job s on s.id = w.job
where s.finished_at is null
    and /* part: may_die */

-- name: hold_free_live
-- Keeps these jobs still that have not ended and that nobody else holds.
select 1
from offpath.job j
where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
    and j.finished_at is null
order by j.id
for update skip locked

-- name: lock_over_line
-- Keeps still, in one order, the gates over these jobs that may be open from now on; what they are.
/* part: line */
select g.id::text, g.state
from offpath.job_gate g
where g.id = any (array(select o.gate from over_line o))
    and g.state in ('open', 'unsatisfiable')
order by g.id
for update

-- name: recount_gates
-- Gates that cannot fire, which are held: those of these jobs, and these. They are counted by the jobs
-- that they watch as they are now; of one that is gone counts what was counted.
select
    g.id::text, g.need, g.counting, g.total,
    count(*) filter (
        where case when j.id is null then w.outcome = 'succeeded' else j.state = 'succeeded' end
    ),
    count(*) filter (
        where case
            when j.id is not null then j.state in ('dead', 'cancelled')
            else coalesce(w.outcome = 'failed', not w.early)
        end
    )
from offpath.job_gate g
join offpath.gate_watch w on w.gate = g.id
left join offpath.job j on j.id = w.job
where g.id = any (array(
        select o.gate
        from offpath.gate_watch o
        where o.job = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
        union
        select jsonb_array_elements_text(:gates::text::jsonb)::uuid
    ))
    and g.state = 'unsatisfiable'
group by g.id

-- name: reopen_gates
-- These gates, which are held, have new counts; those that can fire are open again, for as long as
-- they were at first.
update offpath.job_gate g
set state = case when b.opens then 'open' else g.state end,
    succeeded = b.succeeded,
    failed = b.failed,
    deadline = case
        when b.opens then coalesce(:now::text::timestamptz, clock_timestamp()) + (
            g.deadline - (select min(j.enqueued_at) from offpath.job j where j.gated_by = g.id)
        )
        else g.deadline
    end
from jsonb_to_recordset(:batch::text::jsonb) as b (
    id uuid, opens boolean, succeeded bigint, failed bigint
)
where g.id = b.id

-- name: recount_watches
-- Notes how the jobs that these gates watch have ended, as recount_gates counts them.
update offpath.gate_watch w
set outcome = n.outcome
from (
    select o.job, o.gate, case
        when j.id is null then coalesce(o.outcome, case when not o.early then 'failed' end)
        when j.state = 'succeeded' then 'succeeded'
        when j.state in ('dead', 'cancelled') then 'failed'
    end as outcome
    from offpath.gate_watch o
    left join offpath.job j on j.id = o.job
    where o.gate = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
) as n
where w.job = n.job and w.gate = n.gate and w.outcome is distinct from n.outcome

-- name: died_at_gates
-- The jobs that died at these gates, which are held.
select
    j.id::text, j.task, j.queue, coalesce(j.group_id, j.id::text), j.state, j.attempt, j.parent,
    j.grouped::int, j.announce, j.watched, j.redrives, j.has_undo::int, j.gated_by::text, 1
from offpath.job j
where j.gated_by = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
    and j.gate is not null
    and j.state = 'dead'
    and j.reason = 'unsatisfiable'
order by j.id

-- name: wait_again
-- Ended jobs, which are held, wait afresh at their gates; those whose unique key another job has are
-- left alone, and of those that want one key all but the first.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
held as materialized (
    select j.id, b.delay,
        case
            when not j.unique_held and j.unique_states @> '"blocked"' then j.unique_key
        end as claim,
        j.unique_until is null or j.unique_until > (select clock.now from clock) as takes
    from jsonb_to_recordset(:batch::text::jsonb) as b (id uuid, delay double precision)
    join offpath.job j on j.id = b.id
    where j.state in ('dead', 'cancelled')
),
/* part: alone */
update offpath.job j
set state = 'blocked',
    reason = 'gate',
    run_at = (select clock.now from clock) + h.delay * interval '1 second',
    gated_delay = case when h.delay > 0 then nullif(j.gated_delay, 0) else j.gated_delay end,
    blocked_until = g.deadline,
    deadline = null,
    attempt = 1,
    losses = 0,
    suspected = null,
    redrives = j.redrives + 1,
    redriven_at = (select clock.now from clock),
    error_key = null,
    cancel_requested = false,
    watched = case when j.watched = 2 then 1 else j.watched end,
    progress = null,
    started_at = null,
    finished_at = null,
    expires_at = null,
    unique_held = case
        when j.unique_key is null then false
        when h.takes then true
        else offpath.may_hold(
            j.id, j.unique_key, j.unique_states, j.unique_until, 'blocked',
            (select clock.now from clock)
        )
    end
from alone h
join offpath.job w on w.id = h.id
join offpath.job_gate g on g.id = w.gate
where j.id = h.id
returning j.id::text
