-- name: make_accounts
-- Makes the accounts that are not there, so that there is something to lock. Says which.
insert into offpath.ledger_account (id)
select b.id
from json_array_elements_text(:accounts::text::json) with ordinality as b (id, n)
where not exists (select from offpath.ledger_account a where a.id = b.id)
order by b.n
on conflict (id) do nothing
returning id

-- name: lock_sides
-- Keeps these side rows still, in one order, and reads them as they are under the lock.
with wanted as materialized (
    select s.kind, s.id
    from json_to_recordset(:sides::text::json) as b (kind text, name text)
    join offpath.ledger_side s on s.kind = b.kind and s.id = b.name
    union
    select s.kind, s.id
    from json_to_recordset(:holders::text::json) as b (kind text, name text)
    join offpath.ledger_side s on s.kind = b.kind and s.unique_key = b.name
)
select coalesce(json_agg(held), '[]')::text
from (
    select s.*
    from wanted w
    join offpath.ledger_side s on s.kind = w.kind and s.id = w.id
    order by s.kind, s.id
    for no key update of s
) as held

-- name: lock_accounts
-- Keeps these accounts still, in one order, and reads them as they are under the lock.
select coalesce(json_agg(held), '[]')::text
from (
    select a.id, a.balance, a.raised, a.head, a.number
    from offpath.ledger_account a
    where a.id = any (array(select json_array_elements_text(:accounts::text::json)))
    order by a.id
    for no key update
) as held

-- name: read_ledger
-- All else that a batch of operations asked for, as one JSON document, after the last lock. A "since"
-- that is relative counts from now.
with clock as materialized (
    select coalesce(
        :now::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint
    ) as now
)
select json_build_object(
    'now', clock.now,
    'newest', (
        select coalesce(json_agg(x), '[]')
        from json_to_recordset(:newest::text::json) as b (kind text, name text)
        cross join lateral (
            select s.*
            from offpath.ledger_side s
            where s.kind = b.kind and s.owner = b.name
            order by s.touched_at desc
            limit 1
        ) as x
    ),
    'postings', (
        select coalesce(json_agg(x), '[]')
        from (
            select p.seq, p.id, p.meta, p.at, (
                select coalesce(json_agg(l order by l.account), '[]')
                from offpath.ledger_link l
                where l.posting = p.id
            ) as links
            from json_array_elements_text(:postings::text::json) as b (id)
            join offpath.ledger_posting p on p.id = b.id
            where p.seq > (select coalesce(max(t.done), 0) from offpath.ledger_trim t)
                or not exists (select from offpath.ledger_retired r where r.id = p.id)
        ) as x
    ),
    'retired', (
        select coalesce(json_agg(x), '[]')
        from (
            select r.id, r.trim, coalesce(t.file, '') as file, r.posting::json as posting
            from json_array_elements_text(:postings::text::json) as b (id)
            join offpath.ledger_retired r on r.id = b.id
            left join offpath.ledger_trim t on t.number = r.trim
        ) as x
    ),
    'keys', (
        select coalesce(json_agg(k), '[]')
        from json_array_elements_text(:keys::text::json) as b (key)
        join offpath.ledger_key k on k.key = b.key
    ),
    'lots', (
        select coalesce(json_agg(json_build_array(b.account, x.lots)), '[]')
        from json_to_recordset(:lots::text::json)
            as b (account text, since bigint, relative boolean)
        join offpath.ledger_account a on a.id = b.account
        cross join lateral (
            select coalesce(json_agg(one order by one.at desc, one.number desc), '[]') as lots
            from (
                select l.change as amount, l.at, l.source, l.number
                from offpath.ledger_link l
                where l.account = b.account
                    and l.change > 0
                    and l.at > b.since + case when b.relative then clock.now else 0 end
                    and l.raised > a.raised - a.balance
            ) as one
        ) as x
    ),
    'raised', (
        select coalesce(
            json_agg(
                json_build_array(
                    b.account, s.since, a.raised - coalesce(
                        l.raised,
                        -- Nothing raised it before, or it was trimmed: what the first link goes on from.
                        (
                            select f.raised - greatest(f.change, 0)
                            from offpath.ledger_link f
                            where f.account = b.account
                            order by f.number
                            limit 1
                        ),
                        0
                    )
                )
            ), '[]'
        )
        from json_to_recordset(:raised::text::json)
            as b (account text, since bigint, relative boolean)
        cross join lateral (
            select b.since + case when b.relative then clock.now else 0 end as since
        ) as s
        join offpath.ledger_account a on a.id = b.account
        left join lateral (
            select l.raised
            from offpath.ledger_link l
            where l.account = b.account and l.change > 0 and l.at <= s.since
            order by l.at desc, l.number desc
            limit 1
        ) as l on true
    ),
    'attempts', (
        select coalesce(
            json_agg(json_build_array(b.subject, s.since, l.total - f.total + f.amount)), '[]'
        )
        from json_to_recordset(:attempts::text::json)
            as b (subject text, since bigint, relative boolean)
        cross join lateral (
            select b.since + case when b.relative then clock.now else 0 end as since
        ) as s
        cross join lateral (
            select f.total, f.amount
            from offpath.ledger_attempt f
            where f.subject = b.subject and f.at > s.since
            order by f.at, f.seq
            limit 1
        ) as f
        cross join lateral (
            select l.total
            from offpath.ledger_attempt l
            where l.subject = b.subject
            order by l.at desc, l.seq desc
            limit 1
        ) as l
    ),
    'attempted', (
        select coalesce(json_agg(json_build_array(a.subject, a.key, a.at)), '[]')
        from json_to_recordset(:attempted::text::json) as b (subject text, key text)
        join offpath.ledger_attempt a on a.subject = b.subject and a.key = b.key
    ),
    'subjects', (
        select coalesce(json_agg(x), '[]')
        from json_array_elements_text(:subjects::text::json) as b (subject)
        cross join lateral (
            select a.subject, a.key, a.amount, a.at, a.total
            from offpath.ledger_attempt a
            where a.subject = b.subject
            order by a.at desc, a.seq desc
            limit 1
        ) as x
    )
)::text
from clock

-- name: write_ledger
-- What a batch of operations did, in one statement, so that it is checked as a whole.
with posted as (
    insert into offpath.ledger_posting (id, meta, at)
    select b.id, b.meta, :at::bigint
    from rows from (
        json_to_recordset(:postings::text::json) as (id text, meta text)
    ) with ordinality as b (id, meta, n)
    order by b.n
),
linked as (
    insert into offpath.ledger_link (
        account, number, posting, amount, entries, balance, raised, prev, hash, source, at
    )
    select
        b.account, b.number, b.posting, b.amount, b.entries, b.balance, b.raised, b.prev, b.hash,
        b.source, :at::bigint
    from json_to_recordset(:links::text::json) as b (
        account text, number bigint, posting text, amount bigint, entries bigint[], balance bigint,
        raised bigint, prev text, hash text, source text
    )
),
moved as (
    update offpath.ledger_account a
    set balance = b.balance, raised = b.raised, head = b.head, number = b.number
    from json_to_recordset(:accounts::text::json)
        as b (id text, balance bigint, raised bigint, head text, number bigint, was bigint)
    where a.id = b.id and a.number = b.was
    returning 1
),
keyed as (
    insert into offpath.ledger_key (key, fingerprint, receipt, at)
    select b.key, b.fingerprint, b.receipt::json, b.at
    from json_to_recordset(:keys::text::json)
        as b (key text, fingerprint text, receipt text, at bigint)
),
tried as (
    insert into offpath.ledger_attempt (subject, key, amount, at, total)
    select b.subject, b.key, b.amount, b.at, b.total
    from rows from (
        json_to_recordset(:attempts::text::json)
            as (subject text, key text, amount bigint, at bigint, total bigint)
    ) with ordinality as b (subject, key, amount, at, total, n)
    order by b.n
    -- Tried again after a long time, it takes the place of the old one.
    on conflict (subject, key) do update
    set seq = default, amount = excluded.amount, at = excluded.at, total = excluded.total
),
sides as (
    insert into offpath.ledger_side (
        version, due_at, attempts, amount, created_at, touched_at, kind, id, owner, state, anchor,
        unique_key, body
    )
    select
        b.version, b.due_at, b.attempts, b.amount, b.created_at, b.touched_at, b.kind, b.id, b.owner,
        b.state, b.anchor, b.unique_key, b.body
    from json_to_recordset(:sides::text::json) as b (
        version bigint, due_at bigint, attempts bigint, amount bigint, created_at bigint,
        touched_at bigint, kind text, id text, owner text, state text, anchor text, unique_key text,
        body text
    )
)
select offpath.ledger_expect((select count(*) from moved), :moved::bigint)

-- name: change_sides
-- Changed side rows, each if it is as it was read.
with changed as (
    update offpath.ledger_side s
    set
        version = b.version, due_at = b.due_at, attempts = b.attempts, amount = b.amount,
        touched_at = b.touched_at, owner = b.owner, state = b.state, anchor = b.anchor,
        unique_key = b.unique_key, body = b.body
    from json_to_recordset(:sides::text::json) as b (
        was bigint, version bigint, due_at bigint, attempts bigint, amount bigint,
        touched_at bigint, kind text, id text, owner text, state text, anchor text,
        unique_key text, body text
    )
    where s.kind = b.kind and s.id = b.id and s.version = b.was
    returning 1
)
select offpath.ledger_expect((select count(*) from changed), :count::bigint)

-- name: give_up_unique_keys
-- Keys that change hands within a batch are free in between: a unique index has no such order.
update offpath.ledger_side s
set unique_key = null
from json_to_recordset(:sides::text::json) as b (kind text, id text, unique_key text)
where s.kind = b.kind
    and s.id = b.id
    and s.unique_key is not null
    and s.unique_key is distinct from b.unique_key

-- name: drop_bare_postings
-- Removes postings without links whose ids are needed, such as that of a payout's end.
delete from offpath.ledger_posting p
using json_array_elements_text(:ids::text::json) as b (id)
where p.id = b.id
    and not exists (select from offpath.ledger_link l where l.posting = p.id)

-- name: drop_accounts
-- Removes accounts that were made only to be locked.
delete from offpath.ledger_account a
using json_array_elements_text(:accounts::text::json) as b (id)
where a.id = b.id and a.number = 0

-- name: move_attempt
-- One that was declined counts from now on, as the last of its subject; those after it no longer
-- have it in their totals.
with old as (
    select a.seq, a.at, a.amount
    from offpath.ledger_attempt a
    where a.subject = :subject::text and a.key = :key::text
),
last as (
    select l.at, l.total
    from offpath.ledger_attempt l
    where l.subject = :subject::text
    order by l.at desc, l.seq desc
    limit 1
),
fallen as (
    update offpath.ledger_attempt a
    set total = a.total - old.amount
    from old
    where a.subject = :subject::text and (a.at, a.seq) > (old.at, old.seq)
)
update offpath.ledger_attempt a
set seq = default, at = greatest(:at::bigint, last.at), total = last.total
from old, last
where a.subject = :subject::text and a.key = :key::text
