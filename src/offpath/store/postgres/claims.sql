-- name: claim
-- Takes a name that is free, or is held by the one who asks; no row in the answer when it is not.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
insert into offpath.claim as c (key, holder, free_at)
select :key::text, :holder::text, clock.now + :span::double precision * interval '1 second'
from clock
on conflict (key) do update
set holder = excluded.holder,
    free_at = case
        when :renew::boolean
            or c.free_at <= coalesce(:now::text::timestamptz, clock_timestamp())
            then excluded.free_at
        else c.free_at
    end
where c.holder = excluded.holder
    or c.free_at <= coalesce(:now::text::timestamptz, clock_timestamp())
returning 1

-- name: release_claim
-- Gives a name back; no row in the answer when it is not held by the one who asks.
delete from offpath.claim c where c.key = :key::text and c.holder = :holder::text returning 1
