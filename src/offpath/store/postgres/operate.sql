-- name: cancel
-- Waiting jobs end, running ones are marked; ended ones are left alone.
--
-- The new row is made of the row itself, not of what was read when it was locked: if it has changed
-- since the statement began, it is first made of the old version, and the CHECKs look at that, too.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
held as materialized (
    select j.id, j.state
    from offpath.job j
    where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
        and j.state in ('blocked', 'scheduled', 'ready', 'running')
    order by j.id
    for update
)
update offpath.job j
set state = case when j.state = 'running' then 'running' else 'cancelled' end,
    cancel_requested = j.state = 'running',
    watched = case
        when j.watched = 1 and j.state <> 'running' then 2
        else j.watched
    end,
    blocked_until = null,
    reason = case when j.state = 'running' then j.reason else 'cancelled' end,
    finished_at = case when j.state <> 'running' then (select clock.now from clock) end,
    expires_at = case
        when j.state <> 'running'
            then (select clock.now from clock) + :keep::double precision * interval '1 second'
    end,
    unique_held = case
        when j.state = 'running' then j.unique_held
        when j.unique_key is null then false
        else offpath.may_hold(
            j.id, j.unique_key, j.unique_states, j.unique_until, 'cancelled',
            (select clock.now from clock)
        )
    end
from held h
where j.id = h.id
    and j.state in ('blocked', 'scheduled', 'ready', 'running')
returning
    j.id::text, j.task, j.queue, coalesce(j.group_id, j.id::text), h.state, j.state, j.attempt,
    j.parent, j.grouped::int, j.announce, j.watched, j.redrives,
    null::text

-- name: redrive_keys
-- The unique keys of these jobs.
select j.unique_key
from offpath.job j
where j.id = any (array(
        select b.id from jsonb_to_recordset(:batch::text::jsonb) as b (id uuid)
    ))
    and j.unique_key is not null

-- name: redrive
-- Dead and cancelled jobs start afresh, waiting ones become due; those whose unique key another
-- job has are left alone, and of those that want one key all but the first.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
held as materialized (
    select j.id, j.state, b.delay,
        case
            when j.finished_at is not null and not j.unique_held
                and j.unique_states @> '"queued"'
                then j.unique_key
        end as claim,
        j.unique_until is null or j.unique_until > (select clock.now from clock) as takes
    from jsonb_to_recordset(:batch::text::jsonb) as b (id uuid, delay double precision)
    join offpath.job j on j.id = b.id
    where j.state in ('scheduled', 'ready', 'dead', 'cancelled')
    order by j.id
    for update of j
),
alone as materialized (
    select h.id, h.state, h.delay, h.claim is not null and h.takes as takes
    from (
        select h.id, h.state, h.delay, h.claim, h.takes,
            row_number() over (partition by h.claim, h.takes order by h.id) as place
        from held h
    ) as h
    where h.claim is null
        or (
            (h.place = 1 or not h.takes)
            and not exists (
                select from offpath.job o where o.unique_key = h.claim and o.unique_held
            )
        )
)
update offpath.job j
set state = case
        when due.run_at > (select clock.now from clock) then 'scheduled'
        when j.limit_key is null or j.state = 'ready' then 'ready'
        else 'blocked'
    end,
    run_at = due.run_at,
    attempt = case when j.finished_at is null then j.attempt else 1 end,
    losses = case when j.finished_at is null then j.losses else 0 end,
    suspected = case when j.finished_at is null then j.suspected end,
    redrives = j.redrives + case when j.finished_at is null then 0 else 1 end,
    deadline = case
        when j.finished_at is null then j.deadline
        else (select clock.now from clock) + j.deadline_in * interval '1 second'
    end,
    cancel_requested = false,
    watched = case when j.watched = 2 then 1 else j.watched end,
    gate = null,
    blocked_until = case
        when j.limit_key is null or j.state = 'ready'
            or due.run_at > (select clock.now from clock)
            then null
        when j.finished_at is null then j.deadline
        else (select clock.now from clock) + j.deadline_in * interval '1 second'
    end,
    reason = case
        when j.limit_key is not null and j.state <> 'ready'
            and due.run_at <= (select clock.now from clock)
            then 'limit'
    end,
    progress = case when j.finished_at is null then j.progress end,
    started_at = case when j.finished_at is null then j.started_at end,
    finished_at = null,
    expires_at = null,
    unique_held = case
        when j.unique_key is null then false
        -- not asked again: who takes the key meanwhile makes this whole transaction look anew
        when h.takes then true
        else offpath.may_hold(
            j.id, j.unique_key, j.unique_states, j.unique_until, 'queued',
            (select clock.now from clock)
        )
    end
from alone h
cross join lateral (
    select (select clock.now from clock) + h.delay * interval '1 second' as run_at
) as due
where j.id = h.id
    and j.state in ('scheduled', 'ready', 'dead', 'cancelled')
returning
    j.id::text, j.task, j.queue, coalesce(j.group_id, j.id::text), h.state, j.state, j.attempt,
    j.parent, j.grouped::int, j.announce, j.watched, j.redrives

-- name: delete
-- Removes ended jobs, with their failures; not those that are still to be undone.
with gone as (
    delete from offpath.job j
    where j.id = any (array(
            select o.id
            from offpath.job o
            where o.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
            order by o.id
            for update
        ))
        and (j.state = 'succeeded' or (j.state in ('dead', 'cancelled') and not j.has_undo))
    returning
        j.id, j.task, j.queue, j.group_id, j.state, j.attempt, j.parent, j.grouped, j.gated_by
),
forgotten as (
    delete from offpath.failure f where f.job = any (array(select g.id from gone g))
),
unstepped as (
    delete from offpath.step s where s.job = any (array(select g.id from gone g))
)
select
    g.id::text, g.task, g.queue, coalesce(g.group_id, g.id::text), g.state, g.state, g.attempt,
    g.parent, g.grouped::int, 0, g.gated_by::text
from gone g

-- name: prune
-- Removes ended jobs and messages whose time to be kept has passed, claims that are free again, and
-- workers gone for an hour. Jobs that are still to be undone stay, and so do those that a gate watches
-- or watched whose own jobs have not all ended: these may ask for their results.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
gone as (
    delete from offpath.job j
    where j.id = any (array(
        select o.id
        from offpath.job o
        where o.expires_at <= (select clock.now from clock)
            and not (o.has_undo and o.state in ('dead', 'cancelled'))
            and not exists (
                select
                from offpath.gate_watch w
                join offpath.job h on h.gated_by = w.gate
                where w.job = o.id and h.finished_at is null
            )
        order by o.expires_at
        limit :limit::int
        for update skip locked
    ))
    returning
        j.id, coalesce(j.group_id, j.id::text) as group_id, j.grouped, j.gated_by
),
forgotten as (
    delete from offpath.failure f where f.job = any (array(select g.id from gone g))
),
unstepped as (
    delete from offpath.step s where s.job = any (array(select g.id from gone g))
),
delivered as (
    delete from offpath.message m
    where m.id = any (array(
        select o.id
        from offpath.message o
        where o.expires_at <= (select clock.now from clock)
        order by o.expires_at
        limit :limit::int
        for update skip locked
    ))
    returning 1
),
left_behind as (
    delete from offpath.worker w
    where w.id = any (array(
        select o.id
        from offpath.worker o
        where o.gone_at <= (select clock.now from clock) - interval '1 hour'
        order by o.id
        limit :limit::int
        for update skip locked
    ))
),
freed as (
    delete from offpath.claim c
    where c.key = any (array(
        select o.key
        from offpath.claim o
        where o.free_at <= (select clock.now from clock)
        order by o.free_at
        limit :limit::int
        for update skip locked
    ))
)
select
    (select count(*) from gone)::int,
    (select count(*) from delivered)::int,
    (select coalesce(jsonb_agg(distinct g.group_id), '[]') from gone g where g.grouped)::text,
    (select coalesce(jsonb_agg(distinct g.gated_by), '[]') from gone g where g.gated_by is not null)::text

-- name: rescue
-- Takes jobs from workers whose lease has expired or whose row is gone.
--
-- Workers that hold something are found by stepping over the index of running jobs, so a page
-- full of healthy workers' jobs cannot hide a dead one's.
with recursive clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
holders (worker) as (
    (
        select j.worker
        from offpath.job j
        where j.state = 'running'
        order by j.worker
        limit 1
    )
    union all
    select next.worker
    from holders h
    cross join lateral (
        select j.worker
        from offpath.job j
        where j.state = 'running' and j.worker > h.worker
        order by j.worker
        limit 1
    ) as next
),
gone as materialized (
    -- Out of touch: the lease of a worker ran out whose death could have been seen, and was not.
    select h.worker,
        case
            when :max_deliveries::bigint > 1
                and exists (
                    select from offpath.worker w
                    where w.id = h.worker and w.presence is not null and w.gone_at is null
                )
                then :max_deliveries::bigint * :patient::bigint
            else :max_deliveries::bigint
        end as most
    from holders h
    where not exists (
        select
        from offpath.worker w
        where w.id = h.worker
            and (
                w.expires_at > (select clock.now from clock)
                -- It renews nothing, but its process is there: it is left alone for some leases.
                or w.presence is not null
                and w.gone_at is null
                and w.seen_at + :leases::int * (w.expires_at - w.seen_at)
                    > (select clock.now from clock)
                and not w.presence = any (
                    array(select jsonb_array_elements_text(:own::text::jsonb)::bigint)
                )
                and exists (
                    select
                    from pg_locks l
                    where l.locktype = 'advisory'
                        and l.objsubid = 1
                        and l.granted
                        and l.database = (
                            select d.oid from pg_database d where d.datname = current_database()
                        )
                        and (l.classid::bigint << 32) | l.objid::bigint = w.presence
                )
            )
    )
),
picked as materialized (
    select c.id
    from gone g
    cross join lateral (
        select j.id
        from offpath.job j
        where j.state = 'running' and j.worker = g.worker
        limit :limit::int
    ) as c
    limit :limit::int
),
held as materialized (
    select j.id, j.worker, j.suspected as crash, j.started_at is not null as begun, g.most,
        j.cancel_requested or (
            j.started_at is not null and j.losses + 1 >= g.most
            and (:max_deliveries::bigint = 1 or coalesce(j.alone, false))
        ) as over
    from offpath.job j
    join gone g on g.worker = j.worker
    where j.id = any (array(select p.id from picked p))
    order by j.id
    for update of j skip locked
),
-- Suspects that were not in the half that crashed again.
aside as materialized (
    select j.id
    from offpath.job j
    where j.suspected = any (array(select h.crash from held h where h.crash <> '' and h.begun))
        and j.state in ('scheduled', 'ready', 'blocked')
    order by j.id
    for update skip locked
),
cleared as (
    update offpath.job j
    set suspected = ''
    from aside a
    where j.id = a.id
),
rescued as (
    update offpath.job j
    set state = case
            when j.cancel_requested then 'cancelled'
            when h.over then 'dead'
            else 'ready'
        end,
        losses = least(j.losses, 4611686018427387903) + h.begun::int,
        suspected = case
            when h.begun and j.losses + 2 >= h.most then h.worker
            else j.suspected
        end,
        alone = null,
        admitted_at = case when j.limit_key is not null then (select clock.now from clock) end,
        worker = null,
        watched = case
            when j.watched = 1 and h.over then 2
            else j.watched
        end,
        reason = case
            when j.cancel_requested then 'cancelled'
            when h.over then 'worker_lost'
        end,
        finished_at = case
            when h.over then (select clock.now from clock)
        end,
        expires_at = case
            when h.over
                then (select clock.now from clock) + :keep::double precision * interval '1 second'
        end,
        unique_held = case
            when j.unique_key is null then false
            else offpath.may_hold(
                j.id, j.unique_key, j.unique_states, j.unique_until,
                case
                    when j.cancel_requested then 'cancelled'
                    when h.over then 'dead'
                    else 'queued'
                end,
                (select clock.now from clock)
            )
        end
    from held h
    where j.id = h.id and j.worker = h.worker
    returning
        j.id, j.task, j.queue, j.input, h.worker, j.deliveries, j.attempt, j.options,
        coalesce(j.group_id, j.id::text) as group_id, j.priority, j.run_at, j.enqueued_at,
        j.losses, j.parent, coalesce(j.dependents, '[]') as dependents, j.deadline,
        j.limit_key, case j.state when 'ready' then 'queued' else j.state end as state, j.grouped,
        j.watched, j.redrives
),
failed as (
    insert into offpath.failure (job, delivery, attempt, at, kind, type, message, traceback)
    select
        r.id, r.deliveries, r.attempt, (select clock.now from clock), 'worker_lost', 'WorkerLost',
        format(
            '%s workers were lost that held this job; the last, %s, %s', r.losses, r.worker,
            case
                when w.gone_at is not null then 'ended'
                else 'was out of touch: nobody saw it end'
            end
        ),
        null
    from rescued r
    left join offpath.worker w on w.id = r.worker
    where r.state = 'dead'
    on conflict (job, delivery) do nothing
)
select coalesce(json_agg(r order by r.id), '[]')::text from rescued r

-- name: note_gone_workers
-- Workers that are late and hold nothing are gone.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
update offpath.worker w
set gone_at = (select clock.now from clock), presence = null, missing_since = null
where w.id = any (array(
        select l.id
        from offpath.worker l
        where l.gone_at is null and l.expires_at <= (select clock.now from clock)
        order by l.id
        limit 1000
        for update skip locked
    ))
    and not exists (
        select from offpath.job j where j.state = 'running' and j.worker = w.id
    )
