-- name: findings
-- Findings that stand, by name.
select
    id, name, text, offpath.micros(since), offpath.micros(seen_at),
    offpath.micros(accepted_at), reason
from offpath.finding
where ended_at is null
order by name
limit 1000

-- name: pass_finding
-- Ends a finding that was accepted with another text than what is found now.
update offpath.finding
set ended_at = coalesce(:now::text::timestamptz, clock_timestamp())
where name = :name::text
    and ended_at is null
    and accepted_at is not null
    and text <> :text::text

-- name: record_finding
-- The finding of this name is seen again, or is new.
insert into offpath.finding as f (since, seen_at, id, name, text)
select clock.now, clock.now, :id::text, :name::text, :text::text
from (select coalesce(:now::text::timestamptz, clock_timestamp()) as now) as clock
on conflict (name) where ended_at is null do update
set text = excluded.text, seen_at = excluded.seen_at
returning
    f.id, f.name, f.text, offpath.micros(f.since), offpath.micros(f.seen_at),
    offpath.micros(f.accepted_at), f.reason

-- name: forget_finding
-- What is not so any more, and was not accepted.
delete from offpath.finding
where name = :name::text and ended_at is null and accepted_at is null
returning 1

-- name: end_finding
-- What is not so any more, and was accepted.
update offpath.finding
set ended_at = coalesce(:now::text::timestamptz, clock_timestamp())
where name = :name::text and ended_at is null and accepted_at is not null
returning 1

-- name: accept_finding
-- Accepts a finding; who accepted it first did.
update offpath.finding f
set reason = case when f.accepted_at is null then :reason::text else f.reason end,
    accepted_at = coalesce(f.accepted_at, :now::text::timestamptz, clock_timestamp())
where f.id = :id::text and f.ended_at is null
returning
    f.id, f.name, f.text, offpath.micros(f.since), offpath.micros(f.seen_at),
    offpath.micros(f.accepted_at), f.reason
