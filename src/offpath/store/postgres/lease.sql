-- name: promote
-- Scheduled jobs that are due become ready, a bounded number at a time; those with a limit are held.
-- (The present is a subselect, since no index is searched for a volatile function's value.)
update offpath.job j
set state = case when j.limit_key is null then 'ready' else 'blocked' end,
    reason = case when j.limit_key is null then j.reason else 'limit' end,
    blocked_until = case when j.limit_key is not null then j.deadline end,
    sent_back = 0
where j.id = any (array(
        select s.id
        from offpath.job s
        where s.state = 'scheduled'
            and s.run_at <= (select coalesce(:now::text::timestamptz, clock_timestamp()))
            -- a name that no index of ready jobs can hold would end the promotion of all
            and octet_length(s.queue) + greatest(
                octet_length(s.task) + coalesce(octet_length(s.fair_key), 0),
                octet_length(s.limit_key)
            ) < 2600
        order by s.run_at
        limit :limit::int
        for update skip locked
    ))
    and j.state || '' = 'scheduled'

-- name: lease
-- Hands out ready jobs: the best of every lane (queue and task) that has room, merged, with the queues
-- in turns: the one that was served least comes first.
--
-- A lane is found by stepping over the index of lanes. Those of tasks and queues that were not asked for
-- are jumped over, and one without room is not read at all: neither a crowd of others' lanes nor a big
-- backlog of a saturated task costs anything. At most "lanes" are looked at, from that of "from_task" and
-- "from_queue" on; where there may be more, the next lease goes on behind them.
--
-- With "marks" the lanes are known, and each is read behind the place that is marked: what is before it
-- was taken, and its dead entries would be walked over until a vacuum has removed them. Such a lease
-- does not look at what is scheduled.
--
-- Candidates are read without locks and more of them than wanted, since others may be taking the same
-- ones; only a task whose room is smaller than the whole request is read exactly, so that its room
-- holds without a second look. Of many lanes few candidates each are read. A candidate is
-- found again by its place in the table, where this statement's snapshot keeps it. When none of
-- the next hundred scheduled jobs is asked for, "due_at" is when the last of these is due.
--
-- A job that would hold its unique key while it runs waits, without hiding others, as long as a job
-- that has not ended has it.
--
-- There is a row for each job, or one without a job, and each says when it was, how many candidates
-- there were at least, when the next job is due, and what the look has found: the lanes that may be leased
-- from, the seconds that it took here and, if the next lease goes on there, the last lane that was looked
-- at. (One JSON document instead took half as long again.)
with recursive clock as materialized (
    select
        coalesce(:now::text::timestamptz, clock_timestamp()) as now,
        -- a lease that is lost in a crash only makes its jobs ready again: do not wait for the disk
        set_config('synchronous_commit', 'off', true)
),
/* part: lease_request */
lanes (task, queue) as (
    (
        select j.task, j.queue
        from offpath.job j
        where :marks::text is null and j.state = 'ready' and (j.task, j.queue) >= (
            (select greatest(r.first_task, :from_task::text collate "C") from request r),
            (
                select
                    case
                        when :from_task::text collate "C" >= r.first_task then :from_queue::text
                        else ''
                    end
                from request r
            )
        )
        order by j.task, j.queue
        limit 1
    )
    union all
    /* part: next_lane */
),
walked as materialized (
    select l.task, l.queue from lanes l limit :lanes::int
),
open_lanes as materialized (
    select
        l.queue, l.task, l.priority, l.below, l.run_at, l.id,
        least(:limit::int, (r.tasks ->> l.task)::int) as room,
        coalesce((:served::text::jsonb ->> l.queue)::bigint, 0) as served
    from (
        select
            w.queue, w.task, null::integer as priority, 2147483647::bigint as below,
            null::timestamptz as run_at, null::uuid as id
        from walked w
        union all
        select
            m.queue collate "C", m.task collate "C", m.priority,
            coalesce(m.priority::bigint - 1, 2147483647),
            timestamptz 'epoch' + m.run_at * interval '1 microsecond', m.id
        from jsonb_to_recordset(:marks::text::jsonb) as m (
            queue text, task text, priority integer, run_at bigint, id uuid
        )
    ) as l
    cross join request r
    where (r.tasks ->> l.task)::int > 0
        and (r.everywhere or r.queues ? l.queue)
        and exists (
            select from offpath.worker w
            where w.id = :worker::text and w.expires_at > (select clock.now from clock)
        )
        and not exists (
            select from offpath.queue_pause p
            where p.queue = l.queue and (p.until is null or p.until > (select clock.now from clock))
        )
),
depths as materialized (
    select
        l.queue, l.task, l.priority, l.below, l.run_at, l.id, l.room, l.served, l.wanted,
        least(
            l.wanted,
            case when of.lanes <= 8 then :reach::int else 1 + :reach::int / of.lanes end
        ) as depth
    from (
        select o.*, case when o.room < :limit::int then o.room else :reach::int end as wanted
        from open_lanes o
    ) as l
    cross join (select count(*)::int as lanes from open_lanes) as of
),
candidates as materialized (
    select c.id, c.spot, l.queue, c.priority, c.run_at, l.room,
        l.served,
        c.nth = l.depth and l.depth < l.wanted as cut,
        row_number() over (
            partition by l.task order by l.served + c.nth, c.priority desc, c.run_at, c.id
        ) as place
    from depths l
    cross join lateral (
        select b.id, b.spot, b.priority, b.run_at,
            row_number() over (order by b.priority desc, b.run_at, b.id) as nth
        from (
            (
                select j.id, j.ctid as spot, j.priority, j.run_at
                from offpath.job j
                where l.priority is not null
                    and j.state = 'ready' and j.queue = l.queue and j.task = l.task
                    and j.priority = l.priority and (j.run_at, j.id) > (l.run_at, l.id)
                    and j.suspected is null
                    and (
                        /* part: may_have_key */
                    )
                order by j.run_at, j.id
                limit l.depth
            )
            union all
            (
                select j.id, j.ctid, j.priority, j.run_at
                from offpath.job j
                where j.state = 'ready' and j.queue = l.queue and j.task = l.task
                    and j.priority <= l.below
                    and j.suspected is null
                    and (
                        /* part: may_have_key */
                    )
                order by j.priority desc, j.run_at, j.id
                limit l.depth
            )
            limit l.depth
        ) as b
    ) as c
),
merged as materialized (
    select c.spot, c.priority, c.run_at,
        c.served
            + row_number() over (partition by c.queue order by c.priority desc, c.run_at, c.id) as turn
    from candidates c
    where c.room >= :limit::int or c.place <= c.room
    order by turn, c.priority desc, c.run_at, c.id
    limit :reach::int
),
taken as materialized (
    select m.spot, m.turn, m.priority, m.run_at, j.id,
        /* part: claim */ as claim
    from merged m
    join offpath.job j on j.ctid = m.spot
    where j.state || '' = 'ready'
    order by m.turn, j.priority desc, j.run_at, j.id
    limit :limit::int
    for update of j skip locked
),
-- Of those that claim one key the first runs. A try for the key's lock waits for nobody: two leases
-- that claim the same keys in another order would otherwise wait for each other.
alone as materialized (
    select t.spot
    from (
        select t.spot, t.claim,
            row_number() over (
                partition by t.claim order by t.turn, t.priority desc, t.run_at, t.id
            ) as place
        from taken t
    ) as t
    where case
            when t.claim is null then true
            when t.place > 1 then false
            else pg_try_advisory_xact_lock(hashtextextended('offpath.unique/' || t.claim, 0))
        end
),
leased as (
    update offpath.job j
    /* part: handed_out */
    where j.ctid = any (array(select a.spot from alone a))
    returning
        /* part: handed_columns */
),
outlook as materialized (
    select
        clock.now,
        (select count(*) + coalesce(max(c.cut::int), 0) from candidates c) as candidates,
        case
            when :marks::text is null then /* part: next_due */
        end as due_at,
        case
            when :marks::text is null then jsonb_build_object(
                'lanes', (select jsonb_agg(jsonb_build_array(l.queue, l.task)) from open_lanes l),
                'took', extract(epoch from clock_timestamp() - statement_timestamp()),
                'last', (
                    select jsonb_build_array(w.task, w.queue)
                    from walked w
                    order by w.task desc, w.queue desc
                    limit case when (select count(*) from walked) < :lanes::int then 0 else 1 end
                )
            )::text
        end as survey
    from clock
)
select
    (extract(epoch from o.now) * 1000000)::bigint, o.candidates,
    offpath.micros(o.due_at), o.survey,
    /* part: handed_row */
from outlook o
left join leased l on true
order by l.priority desc, l.run_at, l.id

-- name: lease_behind
-- Hands out the next jobs of one lane, behind a place in it; the rows are those of "lease" with that one
-- mark. Nothing is merged here and no turn is looked for, which spares the server a fifth of its time.
--
-- Jobs are locked as they are read, so what others hold is passed over: there are fewer than "limit" only
-- at the end of the lane.
with clock as materialized (
    select
        coalesce(:now::text::timestamptz, clock_timestamp()) as now,
        -- as in "lease"
        set_config('synchronous_commit', 'off', true)
),
lane as materialized (
    select
        exists (
            select from offpath.worker w
            where w.id = :worker::text and w.expires_at > (select clock.now from clock)
        )
        and not exists (
            select from offpath.queue_pause p
            where p.queue = :queue::text
                and (p.until is null or p.until > (select clock.now from clock))
        ) as open
),
alike as materialized (
    select j.ctid as spot, j.priority, j.run_at, j.id,
        /* part: claim */ as claim
    from offpath.job j
    where (select lane.open from lane)
        and j.state = 'ready' and j.queue = :queue::text and j.task = :task::text
        and j.priority = :priority::int
        and (j.run_at, j.id) > (
            timestamptz 'epoch' + :run_at::bigint * interval '1 microsecond', :id::text::uuid
        )
        and j.suspected is null
        and (
            /* part: may_have_key */
        )
    order by j.run_at, j.id
    limit :limit::int
    for update of j skip locked
),
lower as materialized (
    select j.ctid as spot, j.priority, j.run_at, j.id,
        /* part: claim */ as claim
    from offpath.job j
    where (select lane.open from lane)
        and j.state = 'ready' and j.queue = :queue::text and j.task = :task::text
        and j.priority <= coalesce(:priority::int::bigint - 1, 2147483647)
        and j.suspected is null
        and (
            /* part: may_have_key */
        )
    order by j.priority desc, j.run_at, j.id
    limit :limit::int - (select count(*) from alike)
    for update of j skip locked
),
taken as materialized (
    select * from alike
    union all
    select * from lower
),
-- Few claim a key, so the others are not numbered. The try for its lock is as in "lease".
alone as materialized (
    select t.spot
    from taken t
    where t.claim is null
    union all
    select k.spot
    from (
        select t.spot, t.claim,
            row_number() over (
                partition by t.claim order by t.priority desc, t.run_at, t.id
            ) as place
        from taken t
        where t.claim is not null
    ) as k
    where case
            when k.place > 1 then false
            else pg_try_advisory_xact_lock(hashtextextended('offpath.unique/' || k.claim, 0))
        end
),
leased as (
    update offpath.job j
    /* part: handed_out */
    where j.ctid = any (array(select a.spot from alone a))
    returning
        /* part: handed_columns */
)
select
    (extract(epoch from clock.now) * 1000000)::bigint,
    (select count(*) from taken),
    null::bigint, null::text,
    /* part: handed_row */
from clock
left join leased l on true
order by l.priority desc, l.run_at, l.id

-- name: lease_few
-- Hands out ready jobs where there are few of the tasks asked for: all of them, so nothing is chosen by
-- lane, turn or place. For a worker that waits for work it costs half of "lease", whose plan of a hundred
-- nodes takes the server longer to begin than a lone job to hand out.
--
-- It begins with all ready jobs of these tasks, whatever their queue, and one more than "few": what it
-- reads is bounded, and what it sees is all there is. Of the tasks with less room than "few", "scarce",
-- there may be no more than "room" together: the least room of any of them.
--
-- It takes nothing, and the number of candidates is null, where only "lease" has the answer: there are
-- more, a scheduled job is due, or one would claim a unique key. The rows are those of "lease".
with clock as materialized (
    select
        coalesce(:now::text::timestamptz, clock_timestamp()) as now,
        array(select jsonb_array_elements_text(:tasks::text::jsonb)) as tasks,
        array(select jsonb_array_elements_text(:queues::text::jsonb)) as queues,
        array(select jsonb_array_elements_text(:scarce::text::jsonb)) as scarce,
        -- as in "lease"
        set_config('synchronous_commit', 'off', true)
),
few as materialized (
    select f.spot, f.scarce, f.claims, f.open
    from clock
    cross join lateral (
        select
            j.ctid as spot,
            j.task = any (clock.scarce) as scarce,
            j.unique_key is not null and not j.unique_held as claims,
            j.suspected is null
                and (cardinality(clock.queues) = 0 or j.queue = any (clock.queues))
                and (
                    /* part: may_have_key */
                )
                and exists (
                    select from offpath.worker w
                    where w.id = :worker::text and w.expires_at > clock.now
                )
                and not exists (
                    select from offpath.queue_pause p
                    where p.queue = j.queue and (p.until is null or p.until > clock.now)
                ) as open
        from offpath.job j
        where j.state = 'ready' and j.task = any (clock.tasks)
        order by j.task, j.queue
        limit :few::int + 1
    ) as f
),
known as materialized (
    select
        clock.now, next.due_at, of.open as candidates,
        of.ready > :few::int
            or of.scarce > :room::int
            or of.claims
            or coalesce(next.run_at <= clock.now, false) as refused
    from clock
    cross join (
        select
            count(*) as ready,
            count(*) filter (where f.scarce) as scarce,
            count(*) filter (where f.open) as open,
            coalesce(bool_or(f.open and f.claims), false) as claims
        from few f
    ) as of
    cross join lateral (
        -- the same as in "lease", by one look
        select
            min(s.run_at) as run_at,
            coalesce(
                min(s.run_at) filter (
                    where s.task = any (clock.tasks)
                        and (cardinality(clock.queues) = 0 or s.queue = any (clock.queues))
                ),
                case when count(*) = 100 then max(s.run_at) end
            ) as due_at
        from (
            select s.run_at, s.task, s.queue
            from offpath.job s
            where s.state = 'scheduled'
            order by s.run_at
            limit 100
        ) as s
    ) as next
),
taken as materialized (
    select j.ctid as spot
    from few f
    cross join known
    join offpath.job j on j.ctid = f.spot
    where f.open and not known.refused and j.state || '' = 'ready'
    for update of j skip locked
),
leased as (
    update offpath.job j
    /* part: handed_out */
    where j.ctid = any (array(select t.spot from taken t))
    returning
        /* part: handed_columns */
)
select
    (extract(epoch from known.now) * 1000000)::bigint,
    case when not known.refused then known.candidates end,
    offpath.micros(known.due_at),
    json_build_object('took', extract(epoch from clock_timestamp() - statement_timestamp()))::text,
    /* part: handed_row */
from known
left join leased l on true
order by l.priority desc, l.run_at, l.id

-- name: held
-- What a worker holds, in the columns of a lease.
select
    0, 0, null, null,
    /* part: handed_row */
from offpath.job l
where l.state = 'running' and l.worker = :worker::text
limit 1000
