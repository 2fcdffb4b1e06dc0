-- name: add_messages
-- Adds messages, given in the order in which rows are locked, with "n" for the order of writing.
-- Those whose id, or source and key, is taken are missing in the answer. An id alone would not tell:
-- of two with one id the first may have been refused for its key. A conflict has one target at most, so
-- none is named here, and who asked looks whether each that is missing is there.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
places as materialized (
    select array(
        select nextval('offpath.message_position_seq'::regclass) from generate_series(1, :count::int)
    ) as given
)
insert into offpath.message (
    id, position, created_at, due_at, box, stream, topic, key, headers, payload
)
select
    b.id, p.given[b.n], clock.now, clock.now + coalesce(b.delay, 0) * interval '1 second',
    b.box, b.stream, coalesce(b.topic, ''), b.key, coalesce(b.headers, '{}'), b.payload
from clock
cross join places p
cross join jsonb_to_recordset(:batch::text::jsonb) as b (
    n integer, id text, box text, stream text, topic text, key text, headers text, payload text,
    delay double precision
)
on conflict do nothing
returning id, box, stream, key

-- name: known_messages
-- Which of these ids the store has.
select m.id
from offpath.message m
where m.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)))

-- name: catch_up_messages
-- Gives the positions away that rows have though the counter never gave them; a bounded number.
select count(nextval('offpath.message_position_seq'::regclass))
from generate_series(
    1,
    least(
        1000000,
        (select max(m.position) from offpath.message m)
            - (select s.last_value from offpath.message_position_seq s)
    )
)

-- name: accepted_messages
-- The ids that the store has for these sources and keys, and whether it has the new id itself.
select b.id, b.stream, b.key, m.id, exists (select from offpath.message o where o.id = b.id)::int
from jsonb_to_recordset(:batch::text::jsonb) as b (id text, stream text, key text)
join offpath.message m on m.box = 'in' and m.stream = b.stream and m.key = b.key

-- name: lock_streams
-- One at a time leases of these ordered streams, until the end of this transaction.
select pg_advisory_xact_lock(s.lock)::text
from (
    select distinct hashtextextended('offpath.stream:' || :box::text || ':' || b.stream, 0) as lock
    from jsonb_to_recordset(:streams::text::jsonb) as b (stream text)
    order by 1
) as s

-- name: count_due
-- How many messages of each stream are due, counted up to its room, and since when the first is.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
select b.stream, c.due, coalesce(offpath.micros(c.oldest), 0)
from jsonb_to_recordset(:streams::text::jsonb) as b (stream text, room integer)
cross join lateral (
    select count(*) as due, min(few.due_at) as oldest
    from (
        select m.due_at
        from offpath.message m
        where m.box = :box::text and m.stream = b.stream and m.state = 'pending'
            and m.due_at <= (select clock.now from clock)
        order by m.due_at
        limit b.room
    ) as few
) as c

-- name: lease_messages
-- Hands out messages of streams whose order does not matter: of each the longest due that nobody
-- else is taking. There is a row for each, or one without, and each says when it was, how many
-- were due (up to one more than asked for of each stream) and when the next is. They come by position.
with clock as materialized (
    select
        coalesce(:now::text::timestamptz, clock_timestamp()) as now,
        -- a lease that is lost in a crash only makes its messages due again: do not wait for the disk
        set_config('synchronous_commit', 'off', true)
),
asked as materialized (
    select b.stream, b.room
    from jsonb_to_recordset(:streams::text::jsonb) as b (stream text, room integer)
),
-- where the rows are is known now: the update need not find them again
taken as materialized (
    select t.place
    from asked b
    cross join lateral (
        select m.ctid as place
        from offpath.message m
        where m.box = :box::text and m.stream = b.stream and m.state = 'pending'
            and m.due_at <= (select clock.now from clock)
        order by m.due_at, m.position
        limit b.room
        for update skip locked
    ) as t
),
leased as (
    update offpath.message m
    set holder = :holder::text,
        due_before = m.due_at,
        due_at = (select clock.now from clock) + :lease_seconds::double precision * interval '1 second',
        deliveries = least(m.deliveries, 4611686018427387903) + 1
    where m.ctid = any (array(select t.place from taken t))
    returning
        m.id, m.stream, m.topic, m.payload, m.attempt, m.deliveries, m.position, m.created_at, m.key,
        m.headers, m.due_before
),
outlook as materialized (
    select
        clock.now,
        (
            select sum(c.due)
            from asked b
            cross join lateral (
                select count(*) as due
                from (
                    select from offpath.message m
                    where m.box = :box::text and m.stream = b.stream and m.state = 'pending'
                        and m.due_at <= clock.now
                    limit b.room + 1
                ) as few
            ) as c
        ) as due,
        (
            select min(c.due_at)
            from asked b
            cross join lateral (
                select m.due_at
                from offpath.message m
                where m.box = :box::text and m.stream = b.stream and m.state = 'pending'
                    and m.due_at > clock.now
                order by m.due_at
                limit 1
            ) as c
        ) as due_at
    from clock
)
select
    (extract(epoch from o.now) * 1000000)::bigint, coalesce(o.due, 0)::bigint, 0::bigint,
    offpath.micros(o.due_at),
    l.id, l.stream, l.topic, l.payload, l.attempt, l.deliveries, l.position,
    offpath.micros(l.created_at), l.key, l.headers,
    offpath.micros(l.due_before)
from outlook o
left join leased l on true
order by l.position

-- name: lease_ordered
-- As lease_messages, for streams whose keys keep their order: of each key those that are first, by
-- position, and all due; as many of them as of its messages are among the longest due. They count
-- as due when the last before them does, so a key's order is never that of its due times.
--
-- Only one lease of a stream runs at a time. One that is locked all the same is being ended, and
-- those behind it wait. When the longest due are all behind others ("walk"), the keys themselves
-- are stepped to instead.
with recursive clock as materialized (
    select
        coalesce(:now::text::timestamptz, clock_timestamp()) as now,
        set_config('synchronous_commit', 'off', true)
),
asked as materialized (
    select b.stream, b.room, b.walk
    from jsonb_to_recordset(:streams::text::jsonb) as b (stream text, room integer, walk boolean)
),
due as materialized (
    select b.stream, t.id, t.key, t.due_at, t.position
    from asked b
    cross join lateral (
        select m.id, m.key, m.due_at, m.position
        from offpath.message m
        where m.box = :box::text and m.stream = b.stream and m.state = 'pending'
            and m.due_at <= (select clock.now from clock)
            and (not b.walk or m.key is null)
        order by m.due_at, m.position
        limit case when b.walk then b.room + 1 else 2 * b.room + 100 end
    ) as t
),
walked (stream, key, n) as (
    select b.stream, f.key, 1
    from asked b
    cross join lateral (
        select m.key
        from offpath.message m
        where m.box = :box::text and m.stream = b.stream and m.state = 'pending'
            and m.key is not null
        order by m.key
        limit 1
    ) as f
    where b.walk
    union all
    select w.stream, f.key, w.n + 1
    from walked w
    cross join lateral (
        select m.key
        from offpath.message m
        where m.box = :box::text and m.stream = w.stream and m.state = 'pending'
            and m.key is not null and m.key > w.key
        order by m.key
        limit 1
    ) as f
    where w.n < 20000
),
keys as materialized (
    select d.stream, d.key, count(*) as most
    from due d
    where d.key is not null
    group by d.stream, d.key
    union all
    select w.stream, w.key, 10
    from walked w
),
candidates as materialized (
    select d.stream, d.id, d.key, d.position, d.due_at as counts_from, true as leads
    from due d
    where d.key is null
    union all
    select k.stream, c.id, k.key, c.position, c.counts_from, c.leads
    from keys k
    cross join lateral (
        select
            p.id, p.position,
            bool_and(p.due_at <= (select clock.now from clock)) over up_to_it as goes,
            max(p.due_at) over up_to_it as counts_from,
            row_number() over up_to_it = 1 as leads
        from (
            select m.id, m.position, m.due_at
            from offpath.message m
            where m.box = :box::text and m.stream = k.stream and m.key = k.key
                and m.state = 'pending'
            order by m.position
            limit k.most
        ) as p
        window up_to_it as (order by p.position)
    ) as c
    where c.goes
),
placed as materialized (
    select c.*, row_number() over (partition by c.stream order by c.counts_from, c.position) as place
    from candidates c
),
locked as materialized (
    select m.id
    from offpath.message m
    where m.id = any (array(
            select p.id from placed p join asked b on b.stream = p.stream where p.place <= b.room
        ))
        -- as one opaque condition: else a generic plan reads all that is due to find these few
        and case when m.state = 'pending' then m.due_at <= (select clock.now from clock) end
    for update skip locked
),
taken as materialized (
    select f.id, f.leads
    from (
        select
            h.id, h.key, h.had, h.leads,
            bool_and(h.had) over (partition by h.stream, h.key order by h.position) as all_had
        from (
            -- not a join, which would compare every pair
            select p.id, p.key, p.stream, p.position, p.leads, p.id in (select l.id from locked l) as had
            from placed p
            join asked b on b.stream = p.stream and p.place <= b.room
        ) as h
    ) as f
    where case when f.key is null then f.had else f.all_had end
),
leased as (
    update offpath.message m
    set holder = :holder::text,
        due_before = m.due_at,
        due_at = (select clock.now from clock) + :lease_seconds::double precision * interval '1 second',
        deliveries = least(m.deliveries, 4611686018427387903) + 1
    where m.id = any (array(select t.id from taken t))
    returning
        m.id, m.stream, m.topic, m.payload, m.attempt, m.deliveries, m.position, m.created_at, m.key,
        m.headers, m.due_before
),
outlook as materialized (
    select
        clock.now,
        -- behind one that was handed out nothing of its key may go
        (
            (select count(*) from taken t where not t.leads)
            + (select count(*) from candidates c where c.leads)
        ) as due,
        -- streams whose longest due are so many that others may be hidden behind them
        (
            select count(*)
            from asked b
            where not b.walk
                and (select count(*) from due d where d.stream = b.stream) >= 2 * b.room + 100
                and (select count(*) from candidates c where c.stream = b.stream) < b.room
        ) as hidden,
        (
            select min(c.due_at)
            from asked b
            cross join lateral (
                -- only what is the first of its key; nothing if there is no such among very many
                select few.due_at
                from (
                    select m.due_at, m.key, m.position
                    from offpath.message m
                    where m.box = :box::text and m.stream = b.stream and m.state = 'pending'
                        and m.due_at > clock.now
                    order by m.due_at
                    limit 1000
                ) as few
                where few.key is null
                    or not exists (
                        select
                        from offpath.message e
                        where e.box = :box::text and e.stream = b.stream and e.key = few.key
                            and e.state = 'pending' and e.position < few.position
                    )
                order by few.due_at
                limit 1
            ) as c
        ) as due_at
    from clock
)
select
    (extract(epoch from o.now) * 1000000)::bigint, o.due::bigint, o.hidden::bigint,
    offpath.micros(o.due_at),
    l.id, l.stream, l.topic, l.payload, l.attempt, l.deliveries, l.position,
    offpath.micros(l.created_at), l.key, l.headers,
    offpath.micros(l.due_before)
from outlook o
left join leased l on true
order by l.position

-- name: done_messages
-- The common end: success. Lost leases are missing in the answer.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
update offpath.message m
set state = 'done',
    due_before = null,
    holder = null,
    finished_at = (select clock.now from clock),
    expires_at = (select clock.now from clock) + b.keep * interval '1 second'
from jsonb_to_recordset(:batch::text::jsonb) as b (
    n integer, id text, holder text, keep double precision
)
where m.id = b.id and m.holder = b.holder
returning b.n

-- name: settle_messages
-- Ends attempts, given by id. Lost leases are missing in the answer.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
update offpath.message m
set state = b.state,
    attempt = m.attempt + b.spent,
    deliveries = m.deliveries - b.returned,
    due_at = case
        when b.returned = 1 then m.due_before
        when b.state = 'pending' then (select clock.now from clock) + b.delay * interval '1 second'
        else m.due_at
    end,
    due_before = null,
    holder = null,
    reason = b.reason,
    failure = case
        when b.failure is null then m.failure
        else jsonb_build_object('at', (select clock.now from clock)) || b.failure
    end,
    finished_at = case when b.state <> 'pending' then (select clock.now from clock) end,
    expires_at = case
        when b.state <> 'pending' then (select clock.now from clock) + b.keep * interval '1 second'
    end
from jsonb_to_recordset(:batch::text::jsonb) as b (
    n integer, id text, holder text, state text, spent integer, returned integer,
    delay double precision, keep double precision, reason text, failure jsonb
)
where m.id = b.id and m.holder = b.holder
returning b.n
