-- name: note_declarations
-- Notes what somebody's code defines, by kind and name; its first time stays.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
insert into offpath.declaration as d (kind, name, fingerprint, first_seen, last_seen)
select :kind::text, b.name, b.fingerprint, clock.now, clock.now
from clock, jsonb_to_recordset(:batch::text::jsonb) as b (name text, fingerprint text)
order by b.name
on conflict (kind, name, fingerprint) do update
set last_seen = greatest(d.last_seen, excluded.last_seen)

-- name: overruled_declarations
-- Those of them that are older than another one of that name which was declared lately.
select distinct mine.name
from jsonb_to_recordset(:batch::text::jsonb) as b (name text, fingerprint text)
join offpath.declaration mine
    on mine.kind = :kind::text and mine.name = b.name and mine.fingerprint = b.fingerprint
join offpath.declaration other
    on other.kind = mine.kind
    and other.name = mine.name
    and (other.first_seen, other.fingerprint) > (mine.first_seen, mine.fingerprint)
where other.last_seen + :live::double precision * interval '1 second'
    > coalesce(:now::text::timestamptz, clock_timestamp())

-- name: forget_declarations
-- Removes what nobody has declared for long, and nobody else is removing.
with old as materialized (
    select o.kind, o.name, o.fingerprint from offpath.declaration o
    where o.kind = :kind::text
        and o.last_seen + :keep::double precision * interval '1 second'
            < coalesce(:now::text::timestamptz, clock_timestamp())
    for update skip locked
)
delete from offpath.declaration d
using old
where d.kind = old.kind and d.name = old.name and d.fingerprint = old.fingerprint

-- name: live_declarations
-- What is declared of a kind, by name, the newest first.
select d.name, d.fingerprint, offpath.micros(d.first_seen), offpath.micros(d.last_seen)
from offpath.declaration d
where d.kind = :kind::text
    and d.last_seen + :live::double precision * interval '1 second'
        > coalesce(:now::text::timestamptz, clock_timestamp())
order by d.name, d.first_seen desc, d.fingerprint desc
limit 10000
