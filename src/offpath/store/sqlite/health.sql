-- name: deaths
-- Dead letters since a time, by whose they are and name.
--
-- Jobs and letters: the newest so many, by their indexes. Messages: of each stream so many, and the
-- streams are stepped to. Without a time all count: none is before the least number.
with recursive
bound (since) as (select coalesce(:since, -9223372036854775808)),
lane (box, stream) as (
    select box, stream from (
        select first.box, first.stream from offpath_message as first
        where first.state = 'dead'
        order by first.box, first.stream limit 1
    )
    union all
    select
        coalesce(
            (
                select lane.box from offpath_message as next
                where next.state = 'dead' and next.box = lane.box and next.stream > lane.stream
                order by next.stream limit 1
            ),
            (
                select next.box from offpath_message as next
                where next.state = 'dead' and next.box > lane.box
                order by next.box limit 1
            )
        ),
        coalesce(
            (
                select next.stream from offpath_message as next
                where next.state = 'dead' and next.box = lane.box and next.stream > lane.stream
                order by next.stream limit 1
            ),
            (
                select next.stream from offpath_message as next
                where next.state = 'dead' and next.box > lane.box
                order by next.box, next.stream limit 1
            )
        )
    from lane where lane.box is not null
),
found (whose, name, number) as (
    select 'task', few.task, count(*) from (
        select job.task from offpath_job as job
        where job.state = 'dead' and job.finished_at >= (select bound.since from bound)
        order by job.finished_at desc
        limit :limit
    ) as few
    group by few.task
    union all
    select
        case lane.box when 'out' then 'stream' else 'source' end,
        lane.stream,
        (
            select count(*) from (
                select 1 from offpath_message as message
                where
                    message.state = 'dead' and message.box = lane.box
                    and message.stream = lane.stream
                    and message.finished_at >= (select bound.since from bound)
                limit :limit
            )
        )
    from lane where lane.box is not null
    union all
    select 'router', few.router, count(*) from (
        select letter.router from offpath_letter as letter
        where
            letter.resolved_at is null
            and letter.created_at >= (select bound.since from bound)
        order by letter.created_at desc
        limit :limit
    ) as few
    group by few.router
)
select found.whose, found.name, found.number from found
where found.number > 0
order by found.whose, found.name

-- name: limit_holders
-- The running job of each of these keys that began last.
select held.limit_key, held.id, held.task, held.started_at from (
    select
        named.key as limit_key, job.id, job.task, job.started_at,
        row_number() over (
            partition by named.key order by job.started_at desc, job.id desc
        ) as place
    from (
        select value as key, value as line from json_each(:keys)
        union all
        select part.key, part.line
        from json_each(:keys) as given
        cross join offpath_limit_part as part on part.key = given.value
    ) as named
    cross join offpath_job as job
    where
        job.limit_key = named.line
        and job.state = 'running' and job.started_at is not null
) as held
where held.place = 1
order by held.limit_key

-- name: router_lags
-- When the oldest event of each router that it has not passed was written, and its gates.
select
    router.name,
    coalesce((select gate.open from offpath_gate as gate where gate.router = router.name), 0)
    and coalesce((select gate.open from offpath_gate as gate where gate.router = ''), 0),
    (
        select min(
            (
                select next.at from (
                    select event.position, event.at, event.slot from offpath_log as event
                    where event.domain = router.domain and event.position > cursor.position
                    order by event.position
                    limit 10000
                ) as next
                where next.slot % router.partitions = cursor.partition
                order by next.position
                limit 1
            )
        )
        from offpath_cursor as cursor
        where cursor.router = router.name
    )
from offpath_router as router
order by router.name
limit 1000

-- name: findings
-- Findings that stand, by name.
select id, name, text, since, seen_at, accepted_at, reason
from offpath_finding
where ended_at is null
order by name
limit 1000

-- name: pass_finding
-- Ends a finding that was accepted with another text than what is found now.
update offpath_finding set ended_at = :now
where name = :name and ended_at is null and accepted_at is not null and text <> :text

-- name: record_finding
-- The finding of this name is seen again, or is new.
insert into offpath_finding (id, name, text, since, seen_at)
values (:id, :name, :text, :now, :now)
on conflict (name) where ended_at is null do update set
    text = excluded.text,
    seen_at = excluded.seen_at
returning id, name, text, since, seen_at, accepted_at, reason

-- name: forget_finding
-- What is not so any more, and was not accepted.
delete from offpath_finding
where name = :name and ended_at is null and accepted_at is null
returning 1

-- name: end_finding
-- What is not so any more, and was accepted.
update offpath_finding set ended_at = :now
where name = :name and ended_at is null and accepted_at is not null
returning 1

-- name: accept_finding
-- Accepts a finding; who accepted it first did.
update offpath_finding set
    reason = iif(accepted_at is null, :reason, reason),
    accepted_at = coalesce(accepted_at, :now)
where id = :id and ended_at is null
returning id, name, text, since, seen_at, accepted_at, reason

-- name: note_declarations
-- Notes what somebody's code defines, by kind and name; its first time stays.
insert into offpath_declaration as d (kind, name, fingerprint, first_seen, last_seen)
select :kind, row.value ->> 'name', row.value ->> 'fingerprint', :now, :now
from json_each(:batch) as row
where true
on conflict (kind, name, fingerprint) do update
set last_seen = max(d.last_seen, excluded.last_seen)

-- name: overruled_declarations
-- Those of them that are older than another one of that name which was declared lately.
select distinct mine.name
from json_each(:batch) as row
join offpath_declaration as mine
    on mine.kind = :kind
    and mine.name = row.value ->> 'name'
    and mine.fingerprint = row.value ->> 'fingerprint'
join offpath_declaration as other
    on other.kind = mine.kind
    and other.name = mine.name
    and (other.first_seen, other.fingerprint) > (mine.first_seen, mine.fingerprint)
where other.last_seen + :live > :now

-- name: forget_declarations
-- Removes what nobody has declared for long.
delete from offpath_declaration where kind = :kind and last_seen + :keep < :now

-- name: live_declarations
-- What is declared of a kind, by name, the newest first.
select name, fingerprint, first_seen, last_seen
from offpath_declaration
where kind = :kind and last_seen + :live > :now
order by name, first_seen desc, fingerprint desc
limit 10000
