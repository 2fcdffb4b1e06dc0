-- name: findings
-- Findings that stand, by name.
select coalesce(json_agg(f order by f.name), '[]')::text
from (
    select * from offpath.finding where ended_at is null order by name limit 1000
) as f

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
with recorded as (
    insert into offpath.finding as f (since, seen_at, id, name, text)
    select clock.now, clock.now, :id::text, :name::text, :text::text
    from (select coalesce(:now::text::timestamptz, clock_timestamp()) as now) as clock
    on conflict (name) where ended_at is null do update
    set text = excluded.text, seen_at = excluded.seen_at
    returning f.*
)
select json_agg(r)::text from recorded r

-- name: end_finding
-- What is not so any more: kept if somebody accepted it, else forgotten. Says whether it stood.
with forgotten as (
    delete from offpath.finding
    where name = :name::text and ended_at is null and accepted_at is null
    returning 1
),
ended as (
    update offpath.finding
    set ended_at = coalesce(:now::text::timestamptz, clock_timestamp())
    where name = :name::text and ended_at is null and accepted_at is not null
    returning 1
)
select (exists (select from forgotten) or exists (select from ended))::int

-- name: accept_finding
-- Accepts a finding; who accepted it first did.
with accepted as (
    update offpath.finding
    set
        reason = case when accepted_at is null then :reason::text else reason end,
        accepted_at = coalesce(
            accepted_at, :now::text::timestamptz, clock_timestamp()
        )
    where id = :id::text and ended_at is null
    returning *
)
select coalesce(json_agg(a), '[]')::text from accepted a
