-- part: open_lanes
-- The lanes that were asked for, with room and without a pause; none for a worker that is gone.
open_lanes as materialized (
    select l.queue, l.task
    from lanes l
    cross join request r
    where (r.tasks ->> l.task)::int > 0
        and (r.everywhere or r.queues ? l.queue)
        and coalesce((:rooms::text::jsonb ->> l.queue)::int, 1) > 0
        and exists (
            select from offpath.worker w
            where w.id = :worker::text and w.expires_at > (select clock.now from clock)
        )
        and not exists (
            select from offpath.queue_pause p
            where p.queue = l.queue and (p.until is null or p.until > (select clock.now from clock))
        )

-- name: ready_by_priority
-- The best ready jobs of each lane that may be leased from, by priority and run time, without locks.
with recursive clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
/* part: lease_request */
lanes (task, queue) as (
    (
        select j.task, j.queue
        from offpath.job j
        where j.state = 'ready' and j.task >= (select r.first_task from request r)
        order by j.task, j.queue
        limit 1
    )
    union all
    /* part: next_lane */
),
/* part: open_lanes */
)
select
    c.id::text, c.queue, c.task, c.fair, c.priority,
    offpath.micros(c.run_at),
    offpath.micros(c.enqueued_at)
from open_lanes l
cross join lateral (
    select j.id, j.queue, j.task, '' as fair, j.priority, j.run_at, j.enqueued_at
    from offpath.job j
    where j.state = 'ready' and j.queue = l.queue and j.task = l.task
        and j.suspected is null
        and j.id not in (select jsonb_array_elements_text(:declined::text::jsonb)::uuid)
        and (
            /* part: may_have_key */
        )
    order by j.priority desc, j.run_at, j.id
    limit :reach::int
) as c

-- name: ready_by_turn
-- The best ready jobs of fair keys in each lane that may be leased from, by priority and age, without
-- locks. The keys are stepped to, so this costs a look for each and reads no backlog.
--
-- A bounded number of keys is looked at, from the one of "from" on and then from the first. Of a lane
-- with more keys the best jobs of all come along, so that no key waits for its turn while the best do.
-- The last two columns are the place of the key, 0 for these, and how many keys were looked at at most.
with recursive clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
/* part: lease_request */
lanes (task, queue) as (
    (
        select j.task, j.queue
        from offpath.job j
        where j.state = 'ready' and j.task >= (select r.first_task from request r)
        order by j.task, j.queue
        limit 1
    )
    union all
    /* part: next_lane */
),
/* part: open_lanes */
),
keys (queue, task, fair, wrapped, nth, most) as (
    select l.queue, l.task, first.fair, first.wrapped, 1, greatest(:keys::int / of.lanes, 8)
    from open_lanes l
    cross join (select count(*)::int as lanes from open_lanes) as of
    cross join lateral (
        (
            select coalesce(j.fair_key, '') as fair, false as wrapped
            from offpath.job j
            where j.state = 'ready' and j.task = l.task and j.queue = l.queue
                and coalesce(j.fair_key, '') >= :from::text
            order by coalesce(j.fair_key, '')
            limit 1
        )
        union all
        (
            select coalesce(j.fair_key, ''), true
            from offpath.job j
            where j.state = 'ready' and j.task = l.task and j.queue = l.queue
                and coalesce(j.fair_key, '') < :from::text
            order by coalesce(j.fair_key, '')
            limit 1
        )
        limit 1
    ) as first
    union all
    select k.queue, k.task, next.fair, next.wrapped, k.nth + 1, k.most
    from keys k
    cross join lateral (
        (
            select coalesce(j.fair_key, '') as fair, k.wrapped
            from offpath.job j
            where j.state = 'ready' and j.task = k.task and j.queue = k.queue
                and coalesce(j.fair_key, '') > k.fair
                and (not k.wrapped or coalesce(j.fair_key, '') < :from::text)
            order by coalesce(j.fair_key, '')
            limit 1
        )
        union all
        (
            select coalesce(j.fair_key, ''), true
            from offpath.job j
            where j.state = 'ready' and j.task = k.task and j.queue = k.queue
                and coalesce(j.fair_key, '') < :from::text
                and not k.wrapped
            order by coalesce(j.fair_key, '')
            limit 1
        )
        limit 1
    ) as next
    where k.nth < k.most
)
select
    c.id::text, c.queue, c.task, c.fair, c.priority,
    offpath.micros(c.run_at),
    offpath.micros(c.enqueued_at),
    k.nth, k.most
from keys k
cross join lateral (
    select
        j.id, j.queue, j.task, k.fair, j.priority, j.run_at, j.enqueued_at
    from offpath.job j
    where j.state = 'ready' and j.task = k.task and j.queue = k.queue
        and coalesce(j.fair_key, '') = k.fair
        and j.suspected is null
        and j.id not in (select jsonb_array_elements_text(:declined::text::jsonb)::uuid)
        and (
            /* part: may_have_key */
        )
    order by j.priority desc, j.enqueued_at, j.id
    limit :reach::int
) as c
union all
select
    c.id::text, c.queue, c.task, c.fair, c.priority,
    offpath.micros(c.run_at),
    offpath.micros(c.enqueued_at),
    0, k.most
from keys k
cross join lateral (
    select
        j.id, j.queue, j.task, coalesce(j.fair_key, '') as fair, j.priority, j.run_at, j.enqueued_at
    from offpath.job j
    where j.state = 'ready' and j.queue = k.queue and j.task = k.task
        and j.suspected is null
        and j.id not in (select jsonb_array_elements_text(:declined::text::jsonb)::uuid)
        and (
            /* part: may_have_key */
        )
    order by j.priority desc, j.run_at, j.id
    limit :best::int
) as c
where k.nth = k.most

-- name: ready_by_age
-- The oldest ready jobs of each lane that may be leased from, without locks: of those with a fair key,
-- and of those without one by each priority, for the head of each is its oldest. The column of the
-- fair key only tells the lists apart.
with recursive clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
/* part: lease_request */
lanes (task, queue) as (
    (
        select j.task, j.queue
        from offpath.job j
        where j.state = 'ready' and j.task >= (select r.first_task from request r)
        order by j.task, j.queue
        limit 1
    )
    union all
    /* part: next_lane */
),
/* part: open_lanes */
),
steps (queue, task, priority) as (
    select l.queue, l.task, first.priority
    from open_lanes l
    cross join lateral (
        select j.priority
        from offpath.job j
        where j.state = 'ready' and j.task = l.task and j.queue = l.queue
            and coalesce(j.fair_key, '') = ''
        order by j.priority desc
        limit 1
    ) as first
    union all
    select s.queue, s.task, next.priority
    from steps s
    cross join lateral (
        select j.priority
        from offpath.job j
        where j.state = 'ready' and j.task = s.task and j.queue = s.queue
            and coalesce(j.fair_key, '') = '' and j.priority < s.priority
        order by j.priority desc
        limit 1
    ) as next
)
select
    c.id::text, c.queue, c.task, c.fair, c.priority,
    offpath.micros(c.run_at),
    offpath.micros(c.enqueued_at)
from steps s
cross join lateral (
    select j.id, j.queue, j.task, '' as fair, j.priority, j.run_at, j.enqueued_at
    from offpath.job j
    where j.state = 'ready' and j.task = s.task and j.queue = s.queue
        and coalesce(j.fair_key, '') = '' and j.priority = s.priority
        and j.suspected is null
        and j.id not in (select jsonb_array_elements_text(:declined::text::jsonb)::uuid)
        and (
            /* part: may_have_key */
        )
    order by j.enqueued_at, j.id
    limit :reach::int
) as c
union all
select
    c.id::text, c.queue, c.task, c.fair, c.priority,
    offpath.micros(c.run_at),
    offpath.micros(c.enqueued_at)
from open_lanes s
cross join lateral (
    select j.id, j.queue, j.task, 'keyed' as fair, j.priority, j.run_at, j.enqueued_at
    from offpath.job j
    where j.state = 'ready' and j.task = s.task and j.queue = s.queue
        and j.fair_key <> ''
        and j.suspected is null
        and j.id not in (select jsonb_array_elements_text(:declined::text::jsonb)::uuid)
        and (
            /* part: may_have_key */
        )
    order by j.enqueued_at, j.id
    limit :reach::int
) as c

-- name: running_by_fair_key
-- How many jobs of each fair key are running in the fleet.
select coalesce(j.fair_key, ''), count(*)
from offpath.job j
where j.state = 'running'
group by coalesce(j.fair_key, '')

-- name: take_chosen
-- Hands out those of these ready jobs that nobody else takes; in the columns of a lease. With
-- "begun" also one that was just added and is not due yet. Of those that claim one unique key the
-- first of the list runs, if the key is free.
with clock as materialized (
    select
        coalesce(:now::text::timestamptz, clock_timestamp()) as now,
        set_config('synchronous_commit', 'off', true)
),
taken as materialized (
    select j.id,
        case when j.unique_key is not null and not j.unique_held then j.unique_key end as wanted,
        case
            when j.unique_key is null then false
            else offpath.run_key(
                j.unique_key, j.unique_held, j.unique_states, j.unique_until,
                (select clock.now from clock)
            )
        end as holds
    from offpath.job j
    where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
        and (j.state || '' = 'ready' or (:begun::boolean and j.state || '' = 'scheduled'))
    order by j.id
    for update skip locked
),
alone as materialized (
    select t.id
    from (
        select t.id, t.holds, t.claim,
            row_number() over (partition by t.claim order by c.nth) as place
        from (select t.id, t.holds, case when t.holds then t.wanted end as claim from taken t) as t
        join jsonb_array_elements_text(:ids::text::jsonb) with ordinality as c (id, nth)
            on c.id::uuid = t.id
    ) as t
    where case
            when t.holds is null then false
            when t.claim is null then true
            when t.place > 1 then false
            else pg_try_advisory_xact_lock(hashtextextended('offpath.unique/' || t.claim, 0))
        end
),
leased as (
    update offpath.job j
    /* part: handed_out */
    where j.id = any (array(select a.id from alone a))
    returning
        /* part: handed_columns */
),
outlook as materialized (
    select
        clock.now,
        /* part: next_due */ as due_at
    from clock
)
select
    (extract(epoch from o.now) * 1000000)::bigint, 0,
    offpath.micros(o.due_at), null,
    /* part: handed_row */
from outlook o
left join leased l on true
