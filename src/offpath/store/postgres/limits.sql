-- name: limit_turns
-- Keys that something may be done for now: those with nudges, and of those with held jobs the ones
-- with room, or not looked at for some seconds; and when time alone lets something in.
with recursive clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
nudged (key, n) as (
    (select n.key, 1 from offpath.limit_nudge n order by n.key limit 1)
    union all
    select next.key, l.n + 1
    from nudged l
    cross join lateral (
        select n.key from offpath.limit_nudge n where n.key > l.key order by n.key limit 1
    ) as next
    where l.n < :most::int
),
waiting as (
    (
        select k.key
        from offpath.limit_key k
        where k.waiting
            and (
                (
                    not k.paused
                    and (k.closed_until is null or k.closed_until <= (select clock.now from clock))
                    and (k.rate_next is null or k.rate_next <= (select clock.now from clock))
                    and (k.max_running is null or k.admitted + k.shared < k.max_running)
                )
                or (
                    k.line
                    and not exists (
                        select
                        from offpath.limit_part p
                        join offpath.limit_key o on o.key = p.key
                        where p.line = k.key
                            and (
                                o.paused
                                or o.closed_until > (select clock.now from clock)
                                or o.rate_next > (select clock.now from clock)
                                or o.max_running < o.admitted + o.shared + p.cost
                            )
                    )
                )
                or k.checked_at is null
                or k.checked_at <= (select clock.now from clock) - interval '5 seconds'
            )
        order by k.turn_at nulls first, k.key
        limit :most::int
    )
)
select n.key from nudged n
union
select w.key from waiting w

-- name: waiting_limits
-- Those of these keys that had held jobs when they were last looked at; and of the lines that waited
-- longest for their turn the ones that share a limit with them and have room.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
select k.key
from offpath.limit_key k
where k.waiting and k.key = any (array(select jsonb_array_elements_text(:keys::text::jsonb)))
union
(
    select l.key
    from (
        select k.key
        from offpath.limit_key k
        where k.waiting and k.line
        order by k.turn_at nulls first, k.key
        limit 1000
    ) as l
    where exists (
            select
            from offpath.limit_part p
            where p.line = l.key
                and p.key = any (array(select jsonb_array_elements_text(:keys::text::jsonb)))
        )
        and not exists (
            select
            from offpath.limit_part p
            join offpath.limit_key o on o.key = p.key
            where p.line = l.key
                and (
                    o.paused
                    or o.closed_until > (select clock.now from clock)
                    or o.rate_next > (select clock.now from clock)
                )
        )
    limit :most::int
)

-- name: limit_outlook
-- Seconds until the first rate or cool-down with held jobs lets something in; for these keys or all.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
select (
    offpath.micros(min(greatest(k.closed_until, k.rate_next)))
    - offpath.micros((select clock.now from clock))
) / 1000000.0::double precision
from offpath.limit_key k
where not k.paused
    and (:keys::text is null or k.key = any (array(select jsonb_array_elements_text(:keys::text::jsonb))))
    and greatest(k.closed_until, k.rate_next) > (select clock.now from clock)
    and (
        k.waiting
        or exists (
            select
            from offpath.limit_part p
            join offpath.limit_key l on l.key = p.line
            where p.key = k.key and l.waiting
        )
    )

-- name: make_limits
-- Rows for keys that have none.
insert into offpath.limit_key (key)
select distinct given.key
from (
    -- in the order in which all others lock them
    select jsonb_array_elements_text(:keys::text::jsonb) collate "C" as key
) as given
where not exists (select from offpath.limit_key k where k.key = given.key)
order by given.key
on conflict (key) do nothing

-- name: nudge_together
-- Who ends jobs in this transaction adds their nudges up itself, so that the trigger need not.
select set_config('offpath_store.nudging', 'together', true)

-- name: nudge_limits
-- What was added up: room that was given back, or a limit that is said anew.
insert into offpath.limit_nudge (key, freed, spec)
select b.key, coalesce(b.freed, 0), b.spec
from jsonb_to_recordset(:batch::text::jsonb) as b (key text, freed integer, spec text)

-- name: lock_limits
-- Keeps these keys still, in one order.
select 1
from offpath.limit_key k
where k.key = any (array(select jsonb_array_elements_text(:keys::text::jsonb)))
order by k.key
for update

-- name: hold_untaken
-- Ready jobs that nobody took for some seconds are held again, as many as there are others to go
-- instead, and come behind those.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
untaken as materialized (
    select k.key, others.n
    from offpath.limit_key k
    cross join lateral (
        select count(*) as n
        from (
            select from offpath.job h
            where h.limit_key = k.key and h.state = 'blocked' and h.reason = 'limit'
                and not exists (
                    select from offpath.queue_pause p
                    where p.queue = h.queue
                        and (p.until is null or p.until > (select clock.now from clock))
                )
            limit 1000
        ) as few
    ) as others
    where k.key = any (array(select jsonb_array_elements_text(:keys::text::jsonb)))
        and k.admitted + k.shared >= k.max_running
        and exists (
            select from offpath.job r
            where r.limit_key = k.key and r.state = 'ready'
                and r.admitted_at <= (select clock.now from clock) - interval '5 seconds'
        )
),
picked as materialized (
    select c.id
    from untaken u
    cross join lateral (
        select r.id
        from offpath.job r
        where r.limit_key = u.key and r.state = 'ready'
            and r.admitted_at <= (select clock.now from clock) - interval '5 seconds'
        order by r.admitted_at
        limit u.n
    ) as c
),
held as materialized (
    select j.id
    from offpath.job j
    where j.id = any (array(select p.id from picked p)) and j.state || '' = 'ready'
    for update skip locked
)
update offpath.job j
set state = 'blocked',
    reason = 'limit',
    blocked_until = j.deadline,
    admitted_at = null,
    sent_back = j.sent_back + 1
where j.id = any (array(select h.id from held h))

-- name: hold_untaken_lines
-- The same for limits that lines share, every few seconds: ready jobs of all lines of a full limit, as
-- long as one of these has held jobs.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
picked as materialized (
    select c.id
    from offpath.limit_key k
    cross join lateral (
        select r.id
        from (
            select k.key as line
            union all
            select p.line from offpath.limit_part p where p.key = k.key
        ) as l
        join offpath.job r
            on r.limit_key = l.line
            and r.state = 'ready'
            and r.admitted_at <= (select clock.now from clock) - interval '5 seconds'
        limit 1000
    ) as c
    where k.key = any (array(select jsonb_array_elements_text(:keys::text::jsonb)))
        and k.admitted + k.shared >= k.max_running
        and (
            k.checked_at is null
            or k.checked_at <= (select clock.now from clock) - interval '5 seconds'
        )
        and exists (
            select
            from offpath.limit_part p
            join offpath.limit_key o on o.key in (p.line, k.key) and o.waiting
            where p.key = k.key
        )
),
held as materialized (
    select j.id
    from offpath.job j
    where j.id = any (array(select p.id from picked p)) and j.state || '' = 'ready'
    for update skip locked
)
update offpath.job j
set state = 'blocked',
    reason = 'limit',
    blocked_until = j.deadline,
    admitted_at = null,
    sent_back = j.sent_back + 1
where j.id = any (array(select h.id from held h))

-- name: recount_limits
-- Every few seconds the count of a key is compared with its jobs.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
update offpath.limit_key k
set checked_at = (select clock.now from clock),
    admitted = case
        when k.max_running is null and not k.line then k.admitted
        else (
                select count(*) from offpath.job j
                where j.limit_key = k.key and j.state in ('ready', 'running')
            ) + (
                select coalesce(sum(n.freed), 0) from offpath.limit_nudge n where n.key = k.key
            )
    end
where k.key = any (array(select jsonb_array_elements_text(:keys::text::jsonb)))
    and (
        k.checked_at is null
        or k.checked_at <= (select clock.now from clock) - interval '5 seconds'
    )

-- name: recount_shared
-- What the lines of these keys take of them, by the counts of the lines.
update offpath.limit_key k
set shared = taken.n
from (
    select p.key, coalesce(sum(p.cost * l.admitted), 0) as n
    from offpath.limit_part p
    join offpath.limit_key l on l.key = p.line
    where p.key = any (array(select jsonb_array_elements_text(:keys::text::jsonb)))
    group by p.key
) as taken
where k.key = taken.key and k.shared <> taken.n

-- name: read_nudges
-- Nudges of these keys are taken in, where the row of the key is held: of one that was pruned since it
-- was looked for they are kept for the next pass.
with held as materialized (
    select k.key
    from offpath.limit_key k
    where k.key = any (array(select jsonb_array_elements_text(:keys::text::jsonb)))
    order by k.key
    for update
),
gone as (
    delete from offpath.limit_nudge n
    where n.id = any (array(
        select o.id
        from held as given
        cross join lateral (
            select n.id from offpath.limit_nudge n where n.key = given.key order by n.id limit 2000
        ) as o
    ))
    returning n.id, n.key, n.freed, n.spec
),
sums as materialized (
    select
        g.key, sum(g.freed) as freed,
        offpath.read_json(
            (array_agg(g.spec order by g.id desc) filter (where g.spec is not null))[1]
        ) as spec
    from gone g
    group by g.key
)
update offpath.limit_key k
set admitted = greatest(k.admitted - s.freed, 0),
    max_running = case
        when s.spec is null then k.max_running
        when s.spec ->> 'max_running' ~ '^[0-9]{1,18}$' then (s.spec ->> 'max_running')::bigint
    end,
    rate = case when s.spec is null then k.rate else s.spec ->> 'rate' end,
    rate_next = case
        when s.spec is null or k.rate is not distinct from s.spec ->> 'rate' then k.rate_next
    end
from sums s
where k.key = s.key

-- name: rates_of
-- The rates of these keys, and what is left of each: null where only its rate bounds it.
select
    k.key, k.rate, k.rate_state,
    (extract(epoch from coalesce(:now::text::timestamptz, clock_timestamp())) * 1000000)::bigint,
    case
        when k.paused
            or k.closed_until > coalesce(:now::text::timestamptz, clock_timestamp())
            then 0
        when k.max_running is not null then greatest(k.max_running - k.admitted - k.shared, 0)
    end
from offpath.limit_key k
where k.key = any (array(select jsonb_array_elements_text(:keys::text::jsonb)))
order by k.key

-- name: admitting
-- In this transaction, what becomes ready has been admitted. A crash only makes it held again.
select
    set_config('offpath_store.admitting', 'on', true), set_config('synchronous_commit', 'off', true)

-- name: pick_held
-- The best held jobs of these keys, up to their room and each key's share of the pass: a rate may let
-- in few of those that are picked, and a key with many must not take the place of the others. Jobs
-- that somebody else has locked, perhaps for long, are passed over before they are counted, so that
-- they hold back no other. "share" is null for a key of which it was not the bound.
with recursive clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
open_keys as materialized (
    select
        k.key,
        least(coalesce(k.max_running - k.admitted - k.shared, :limit::int), :limit::int) as room
    from offpath.limit_key k
    where k.key = any (array(select jsonb_array_elements_text(:keys::text::jsonb)))
        and not k.paused
        and (k.closed_until is null or k.closed_until <= (select clock.now from clock))
        and (k.rate_next is null or k.rate_next <= (select clock.now from clock))
        and (k.max_running is null or k.admitted + k.shared < k.max_running)
        and ( -- a probe for each key: as "exists" it may be a walk of all held jobs
            select true from offpath.job j
            where j.limit_key = k.key and j.state = 'blocked' and j.reason = 'limit'
            limit 1
        )
    union all
    select k.key, least(coalesce(o.room, :limit::int), :limit::int) as room
    from offpath.limit_key k
    cross join lateral (
        select
            min((m.max_running - m.admitted - m.shared) / p.cost) as room,
            bool_or(
                m.paused
                or coalesce(m.closed_until > (select clock.now from clock), false)
                or coalesce(m.rate_next > (select clock.now from clock), false)
            ) as shut
        from offpath.limit_part p
        join offpath.limit_key m on m.key = p.key
        where p.line = k.key
    ) as o
    where k.key = any (array(select jsonb_array_elements_text(:keys::text::jsonb)))
        and k.line
        and not o.shut
        and (o.room is null or o.room > 0)
        and (
            select true from offpath.job j
            where j.limit_key = k.key and j.state = 'blocked' and j.reason = 'limit'
            limit 1
        )
),
rooms as materialized (
    select o.key, least(o.room, s.share) as room, case when o.room > s.share then s.share end as share
    from open_keys o
    cross join (
        select greatest(:limit::int / greatest(count(*), 1), 1)::int as share from open_keys
    ) as s
),
lanes (key, queue, room) as (
    select r.key, first.queue, r.room
    from rooms r
    cross join lateral (
        select j.queue
        from offpath.job j
        where j.limit_key = r.key and j.state = 'blocked' and j.reason = 'limit'
        order by j.queue
        limit 1
    ) as first
    union all
    select l.key, next.queue, l.room
    from lanes l
    cross join lateral (
        select j.queue
        from offpath.job j
        where j.limit_key = l.key and j.state = 'blocked' and j.reason = 'limit'
            and j.queue > l.queue
        order by j.queue
        limit 1
    ) as next
),
best as materialized (
    select r.key, c.id, r.share, c.sent_back, c.priority, c.run_at
    from rooms r
    cross join lateral (
        select f.id, f.sent_back, f.priority, f.run_at
        from lanes l
        cross join lateral (
            select j.id, j.sent_back, j.priority, j.run_at
            from offpath.job j
            where j.limit_key = l.key and j.queue = l.queue
                and j.state = 'blocked' and j.reason = 'limit'
            order by j.sent_back, j.priority desc, j.run_at, j.id
            limit r.room
            for update skip locked
        ) as f
        where l.key = r.key
            and not exists (
                select from offpath.queue_pause p
                where p.queue = l.queue
                    and (p.until is null or p.until > (select clock.now from clock))
            )
        order by f.sent_back, f.priority desc, f.run_at, f.id
        limit r.room
    ) as c
    limit :limit::int
)
select b.key, b.id::text, b.share, b.sent_back, b.priority, offpath.micros(b.run_at) from best b

-- name: admit_jobs
-- Held jobs become ready. They are locked since they were picked.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
update offpath.job j
set state = 'ready',
    reason = null,
    blocked_until = null,
    admitted_at = (select clock.now from clock),
    unique_held = case
        when j.unique_key is null then false
        else offpath.may_hold(
            j.id, j.unique_key, j.unique_states, j.unique_until, 'queued',
            (select clock.now from clock)
        )
    end
where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
returning j.announce

-- name: save_limits
-- What was admitted of these keys, and whether others are still held.
update offpath.limit_key k
set admitted = k.admitted + b.jobs,
    rate_state = coalesce(b.rate_state, k.rate_state),
    rate_next = case
        when b.rate_state is null then k.rate_next
        when b.next_in > 0 then coalesce(:now::text::timestamptz, clock_timestamp())
            + b.next_in * interval '1 second'
    end,
    turn_at = clock_timestamp(),
    waiting = exists (
        select from offpath.job j
        where j.limit_key = k.key and j.state = 'blocked' and j.reason = 'limit'
    )
from jsonb_to_recordset(:batch::text::jsonb) as b (
    key text, jobs bigint, rate_state text, next_in double precision
)
where k.key = b.key

-- name: close_limits
-- Nothing of these keys is admitted until a time, or (null) until they are opened. An earlier end
-- shortens nothing. A row that was pruned since it was looked for is made here.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
insert into offpath.limit_key as k (key, paused, closed_until)
select
    b.key,
    b."until" is null and b.seconds is null,
    greatest(b."until", (select clock.now from clock) + b.seconds * interval '1 second')
from jsonb_to_recordset(:batch::text::jsonb) as b (
    key text, "until" timestamptz, seconds double precision
)
order by b.key collate "C"
on conflict (key) do update
set paused = k.paused or excluded.paused,
    closed_until = greatest(k.closed_until, excluded.closed_until)

-- name: hold_closed
-- Ready jobs of keys that are closed are held again.
with closed as materialized (
    select k.key
    from offpath.limit_key k
    where k.key = any (array(select jsonb_array_elements_text(:keys::text::jsonb)))
        and not k.line
        and (
            k.paused or k.closed_until > coalesce(:now::text::timestamptz, clock_timestamp())
        )
),
lines as materialized (
    select c.key from closed c
    union
    select p.line from closed c join offpath.limit_part p on p.key = c.key
),
held as materialized (
    select j.id
    from lines c
    join offpath.job j on j.limit_key = c.key and j.state in ('ready', 'running')
    where j.state || '' = 'ready'
    for update of j skip locked
)
update offpath.job j
set state = 'blocked', reason = 'limit', blocked_until = j.deadline, admitted_at = null
where j.id = any (array(select h.id from held h))
returning j.id::text

-- name: open_limit
-- Ends a pause and a cool-down; no row in the answer when there was none.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
before as materialized (
    select k.key, k.paused or coalesce(k.closed_until > clock.now, false) as closed
    from offpath.limit_key k
    cross join clock
    where k.key = :key::text
    for update of k
)
update offpath.limit_key k
set paused = false, closed_until = null
from before b
where k.key = b.key
returning b.closed::int

-- name: prune_limits
-- Keys go that have no jobs, are not closed, and whose rate remembers nothing that still counts.
delete from offpath.limit_key k
where k.key = any (array(
        select o.key
        from offpath.limit_key o
        where not o.waiting and (o.line or not o.paused) and o.admitted = 0 and o.shared = 0
            and (
                o.closed_until is null
                or o.closed_until <= coalesce(:now::text::timestamptz, clock_timestamp())
            )
            and (
                o.rate_state is null
                or substring(o.rate_state from '"at": ?([0-9]{1,15}(?:[.][0-9]{1,15})?)')::float8
                    + 2 * substring(o.rate from '"per": ?([0-9]{1,15}(?:[.][0-9]{1,15})?)')::float8
                    <= extract(epoch from coalesce(:now::text::timestamptz, clock_timestamp()))
                or o.rate is null
            )
            and not exists (select from offpath.limit_nudge n where n.key = o.key)
            and not exists (select from offpath.limit_part p where p.key = o.key)
            and not exists (
                select from offpath.job j
                where j.limit_key = o.key and j.state in ('ready', 'running')
            )
            and not exists (
                select from offpath.job j
                where j.limit_key = o.key and j.state = 'blocked' and j.reason = 'limit'
            )
        order by o.turn_at nulls first
        limit :limit::int
        for update skip locked
    ))
