-- name: add_run
-- Keeps a run; one of its id stays.
insert into offpath_run (id, kind, name, at, body) values (:id, :kind, :name, :at, :body)
on conflict (id) do nothing

-- name: trim_runs
-- Removes the oldest runs of a name beyond so many.
delete from offpath_run
where
    kind = :kind and name = :name
    and id < (
        select kept.id from offpath_run as kept
        where kept.kind = :kind and kept.name = :name
        order by kept.id desc
        limit 1 offset :keep - 1
    )

-- name: runs
-- Runs by id, the newest first.
select run.id, run.kind, run.name, run.at, run.body
from offpath_run as run
where
    (:kind is null or run.kind = :kind)
    and (:name is null or run.name = :name)
    and (:after is null or run.id < :after)
order by run.id desc
limit :limit
