-- name: due_sides
-- The store's time in milliseconds, and due rows of a kind, the longest due first, that nobody else
-- holds: these stay as they are until the end of this transaction.
with clock as materialized (
    select coalesce(
        :now::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint
    ) as now
)
select
    (select clock.now from clock),
    s.kind, s.id, s.owner, s.state, s.version, s.due_at, s.attempts, s.amount, s.anchor,
    s.unique_key, s.created_at, s.touched_at, s.body
from offpath.ledger_side s
where s.kind = :kind::text
    and s.due_at <= (select clock.now from clock)
    and (
        (s.kind = 'payout' and s.state in ('RESERVED', 'SUBMITTED'))
        or (s.kind = 'subscription' and s.state = 'ACTIVE')
        or (s.kind = 'promo' and s.state = 'OPEN')
    )
order by s.due_at, s.id
limit :limit::bigint
for no key update of s skip locked

-- name: hold_sides
-- These rows are due at this time, and a version older.
update offpath.ledger_side s
set due_at = :until::bigint, version = s.version + 1
where s.kind = :kind::text
    and s.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)))

-- name: lock_checkpoints
-- One at a time seals.
select pg_advisory_xact_lock(hashtextextended('offpath.checkpoint', 0))::text

-- name: add_checkpoint
-- Writes a checkpoint if it follows the last one.
insert into offpath.ledger_checkpoint (
    id, root, signature, count, at, v, sum, kid, prev, posting
)
select :id::text, :root::text, :signature::text, :count::bigint, :at::bigint, :v::int, :sum::bigint,
    :kid::text, :prev::text, :posting::bigint
where :prev::text is not distinct from (
    select c.id from offpath.ledger_checkpoint c order by c.n desc limit 1
)
on conflict ((coalesce(prev, ''))) do nothing
returning 1

-- name: clear_leaves
-- What was sealed before is not gone on from.
delete from offpath.ledger_leaf

-- name: put_leaves
-- Leaves that differ from the last checkpoint's.
insert into offpath.ledger_leaf (account, number, head, sum)
select b.account, b.number, b.head, b.sum
from json_to_recordset(:batch::text::json)
    as b (account text, number bigint, head text, sum bigint)
on conflict (account) do update
set number = excluded.number, head = excluded.head, sum = excluded.sum

-- name: old_attempts
-- Attempts from before a time that have another of their subject behind them.
select a.subject, a.at, a.seq
from offpath.ledger_attempt a
where a.at < :before::bigint
    and exists (
        select
        from offpath.ledger_attempt later
        where later.subject = a.subject and (later.at, later.seq) > (a.at, a.seq)
    )
order by a.at
limit :limit::bigint

-- name: old_keys
-- Idempotency keys from before a time.
select k.key
from offpath.ledger_key k
where k.at < :before::bigint
order by k.at
limit :limit::bigint

-- name: prune_attempts
-- Removes attempts that no window reaches. One that counts anew has another number; one that somebody
-- has locked is left for the next time.
with gone as materialized (
    select a.subject, a.at, a.seq
    from jsonb_array_elements(:attempts::text::jsonb) as b
    join offpath.ledger_attempt a
        on a.subject = b.value ->> 0
        and a.at = (b.value ->> 1)::bigint
        and a.seq = (b.value ->> 2)::bigint
    order by a.subject, a.at, a.seq
    for update of a skip locked
)
delete from offpath.ledger_attempt a
using gone g
where a.subject = g.subject and a.at = g.at and a.seq = g.seq
returning a.seq

-- name: prune_keys
-- Removes idempotency keys, unless they were used again; one that is locked is left.
with gone as materialized (
    select k.key
    from offpath.ledger_key k
    where k.key = any (array(select jsonb_array_elements_text(:keys::text::jsonb)))
        and k.at < :before::bigint
    order by k.key
    for update skip locked
)
delete from offpath.ledger_key k using gone g where k.key = g.key
returning k.key

-- name: keep_postings
-- Postings that rows name which are open are kept whole, until the trim is begun: what it kept is signed.
insert into offpath.ledger_retired (id, trim, posting)
select p.id, :trim::bigint, offpath.ledger_posting_text(p.id)
from json_array_elements_text(:ids::text::json) as b (id)
join offpath.ledger_posting p on p.id = b.id
where not exists (select from offpath.ledger_retired r where r.id = p.id)
    and :trim::bigint > coalesce((select max(t.number) from offpath.ledger_trim t), 0)
order by p.id
on conflict (id) do nothing

-- name: add_trim
-- Writes a trim if it follows the last one, which is finished, its checkpoint is there, and no more is
-- kept for it than was signed.
insert into offpath.ledger_trim (
    number, checkpoint, posting, until, at, file, archive, kept, kid, signature
)
select :number::bigint, :checkpoint::text, :posting::bigint, :until::bigint, :at::bigint, :file::text,
    :archive::text, :kept::text, :kid::text, :signature::text
where :posting::bigint > 0
    and :number::bigint = 1 + coalesce((select max(t.number) from offpath.ledger_trim t), 0)
    and not exists (
        select from offpath.ledger_trim t
        where t.done < t.posting or t.posting >= :posting::bigint
    )
    and exists (
        select from offpath.ledger_checkpoint c
        where c.id = :checkpoint::text and c.posting = :posting::bigint
    )
    and :keeps::bigint = (
        select count(*) from offpath.ledger_retired r
        where r.trim = :number::bigint and r.posting is not null
    )
returning 1

-- name: next_trim
-- The trim that is under way: its number, its boundary, the last posting that was looked at, how many
-- come next, and the last of these.
select
    t.number, t.posting, t.done, count(x.seq),
    case when count(x.seq) < :limit::bigint then t.posting else max(x.seq) end
from (select * from offpath.ledger_trim order by number desc limit 1) as t
left join lateral (
    select p.seq
    from offpath.ledger_posting p
    where p.seq > t.done and p.seq <= t.posting
    order by p.seq
    limit :limit::bigint
) as x on true
where t.done < t.posting
group by t.number, t.posting, t.done

-- name: retire_postings
-- From now on these ids are those of postings that were removed. Records of the audit alone stay.
insert into offpath.ledger_retired (id, trim)
select p.id, :number::bigint
from offpath.ledger_posting p
where p.seq > :after::bigint
    and p.seq <= :through::bigint
    and exists (
        select from offpath.ledger_link l
        where l.posting = p.id and l.account <> 'platform:netting_clearing'
    )
order by p.id
on conflict (id) do nothing

-- name: trim_links
-- Removes links behind which there is another one of their account up to the boundary.
delete from offpath.ledger_link l
using offpath.ledger_posting p
where p.seq > :after::bigint
    and p.seq <= :through::bigint
    and l.posting = p.id
    and l.account <> 'platform:netting_clearing'
    and exists (
        select
        from offpath.ledger_link n
        join offpath.ledger_posting np on np.id = n.posting
        where n.account = l.account and n.number = l.number + 1 and np.seq <= :boundary::bigint
    )
returning 1

-- name: drop_trimmed
-- Removes postings of which no link is left.
delete from offpath.ledger_posting p
where p.seq > :after::bigint
    and p.seq <= :through::bigint
    and not exists (select from offpath.ledger_link l where l.posting = p.id)
returning 1

-- name: advance_trim
-- These were looked at.
update offpath.ledger_trim
set done = :through::bigint,
    postings = postings + :postings::bigint,
    links = links + :links::bigint,
    moved = coalesce(:now::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
where number = :number::bigint
