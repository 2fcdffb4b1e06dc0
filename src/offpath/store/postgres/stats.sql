-- name: add_stats
-- Adds rows of stats; one that is there stays.
insert into offpath.stat (step, at, source, body, sums)
select b.step, b.at, b.source, b.body, b.sums
from jsonb_to_recordset(:batch::text::jsonb) as b (
    step int, at bigint, source text, body text, sums text
)
on conflict (step, at, source) do nothing

-- name: stats
-- Rows of a time, the newest ones.
select l.step, l.at, l.source, l.body
from (
    select s.step, s.at, s.source, s.body
    from offpath.stat s
    where s.step = any (array[10, 60, 300, 900, 3600, 86400])
        and s.at >= :since::bigint and s.at < :until::bigint
    order by s.at desc, s.step desc, s.source desc
    limit :limit::bigint
) as l
order by l.step, l.at, l.source

-- name: stat_sums
-- The same without names, which is a tenth to read; a row of before the sums is told whole.
select l.step, l.at, l.source, coalesce(l.sums, l.body) as sums
from (
    select s.step, s.at, s.source, s.sums, s.body
    from offpath.stat s
    where s.step = any (array[10, 60, 300, 900, 3600, 86400])
        and s.at >= :since::bigint and s.at < :until::bigint
    order by s.at desc, s.step desc, s.source desc
    limit :limit::bigint
) as l
order by l.step, l.at, l.source

-- name: take_stats
-- Takes the rows of the oldest span, if it is over.
delete from offpath.stat s
where s.step = :step::int
    and (:step::int <> :into::int or s.source <> '')
    and s.at >= (
        select o.at / :into::int * :into::int
        from offpath.stat o
        where o.step = :step::int and (:step::int <> :into::int or o.source <> '')
        order by o.at
        limit 1
    )
    and s.at < (
        select o.at / :into::int * :into::int + :into::int
        from offpath.stat o
        where o.step = :step::int and (:step::int <> :into::int or o.source <> '')
        order by o.at
        limit 1
    )
    and s.at / :into::int * :into::int + :into::int <= :before::bigint
returning s.at, s.body

-- name: open_stat
-- The row that takes others in; whoever makes the same one waits.
insert into offpath.stat (step, at, source, body)
values (:step::int, :at::bigint, '', '{}')
on conflict (step, at, source) do nothing

-- name: stat_body
-- What it has already.
select s.body from offpath.stat s
where s.step = :step::int and s.at = :at::bigint and s.source = ''
for update

-- name: set_stat
-- What it has now.
update offpath.stat s set body = :body::text, sums = :sums::text
where s.step = :step::int and s.at = :at::bigint and s.source = ''

-- name: prune_stats
-- Removes old rows.
delete from offpath.stat s
where (s.step, s.at, s.source) in (
    select o.step, o.at, o.source
    from offpath.stat o
    where o.step = :step::int and o.at < :before::bigint
    order by o.at
    limit :limit::bigint
)
returning 1
