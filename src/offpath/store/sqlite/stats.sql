-- name: add_stats
-- Adds rows of stats; one that is there stays.
insert into offpath_stat (step, at, source, body, sums)
select
    value ->> 'step', value ->> 'at', value ->> 'source', value ->> 'body', value ->> 'sums'
from json_each(:batch)
where true
on conflict (step, at, source) do nothing

-- name: stats
-- Rows of a time, the newest ones.
select step, at, source, body
from (
    select step, at, source, body
    from offpath_stat
    where step in (10, 60, 300, 900, 3600, 86400) and at >= :since and at < :until
    order by at desc, step desc, source desc
    limit :limit
)
order by step, at, source

-- name: stat_sums
-- The same without names, which is a tenth to read; a row of before the sums is told whole.
select step, at, source, coalesce(sums, body) as sums
from (
    select step, at, source, sums, body
    from offpath_stat
    where step in (10, 60, 300, 900, 3600, 86400) and at >= :since and at < :until
    order by at desc, step desc, source desc
    limit :limit
)
order by step, at, source

-- name: take_stats
-- Takes the rows of the oldest span, if it is over.
delete from offpath_stat
where
    step = :step
    and (:step <> :into or source <> '')
    and at >= (
        select first.at / :into * :into
        from offpath_stat as first
        where first.step = :step and (:step <> :into or first.source <> '')
        order by first.at
        limit 1
    )
    and at < (
        select first.at / :into * :into + :into
        from offpath_stat as first
        where first.step = :step and (:step <> :into or first.source <> '')
        order by first.at
        limit 1
    )
    and at / :into * :into + :into <= :before
returning at, body

-- name: open_stat
-- The row that takes others in.
insert into offpath_stat (step, at, source, body) values (:step, :at, '', '{}')
on conflict (step, at, source) do nothing

-- name: stat_body
-- What it has already.
select body from offpath_stat where step = :step and at = :at and source = ''

-- name: set_stat
-- What it has now.
update offpath_stat set body = :body, sums = :sums where step = :step and at = :at and source = ''

-- name: prune_stats
-- Removes old rows.
delete from offpath_stat
where (step, at, source) in (
    select step, at, source from offpath_stat
    where step = :step and at < :before
    order by at
    limit :limit
)
returning 1
