-- name: limits
-- Keys as they are now, by name.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
named as materialized (
    select n.key
    from (
        select k.key from offpath.limit_key k
        where (:after::text is null or k.key > :after::text)
            and (:keys::text is null or k.key = any (array(select jsonb_array_elements_text(:keys::text::jsonb))))
        union
        select n.key from offpath.limit_nudge n
        where (:after::text is null or n.key > :after::text)
            and (:keys::text is null or n.key = any (array(select jsonb_array_elements_text(:keys::text::jsonb))))
    ) as n
    order by n.key
    limit :limit::int
)
select
    n.key,
    case when last.spec is null then k.max_running
        else (last.spec ->> 'max_running')::bigint
    end,
    nullif(
        case when last.spec is null then offpath.read_json(k.rate) else last.spec -> 'rate' end,
        'null'::jsonb
    )::text,
    (
        select count(*) from offpath.job j
        where j.limit_key = n.key and j.state in ('ready', 'running')
    ),
    (
        select count(*) from offpath.job j where j.limit_key = n.key and j.state = 'running'
    ),
    (
        select count(*)
        from (
            select from offpath.job j
            where j.limit_key = n.key and j.state = 'blocked' and j.reason = 'limit'
            limit 100000
        ) as few
    ),
    case
        when k.closed_until > (select clock.now from clock) then offpath.micros(k.closed_until)
    end,
    coalesce(k.paused, false)::int
from named n
left join offpath.limit_key k on k.key = n.key
left join lateral (
    select offpath.read_json(o.spec) as spec
    from offpath.limit_nudge o
    where o.key = n.key and o.spec is not null
    order by o.id desc
    limit 1
) as last on true
order by n.key

-- name: count_held
-- Held jobs of all keys, counted up to a limit.
select count(*)
from (
    select from offpath.job j
    where j.limit_key is not null and j.state = 'blocked' and j.reason = 'limit'
    limit :limit::int
) as few
