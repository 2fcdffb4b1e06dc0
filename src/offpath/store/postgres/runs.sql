-- name: add_run
-- Keeps a run; one of its id stays.
insert into offpath.run (id, kind, name, at, body)
values (:id::text, :kind::text, :name::text, :at::bigint, :body::text)
on conflict (id) do nothing

-- name: trim_runs
-- Removes the oldest runs of a name beyond so many; what another one removes now is passed over.
delete from offpath.run r
where r.id = any (array(
    select o.id
    from offpath.run o
    where o.kind = :kind::text and o.name = :name::text
        and o.id < (
            select k.id
            from offpath.run k
            where k.kind = :kind::text and k.name = :name::text
            order by k.id desc
            limit 1 offset :keep::int - 1
        )
    order by o.id
    for update skip locked
))

-- name: runs
-- Runs by id, the newest first.
select r.id, r.kind, r.name, r.at, r.body
from offpath.run r
where (:kind::text is null or r.kind = :kind::text)
    and (:name::text is null or r.name = :name::text)
    and (:after::text is null or r.id < :after::text)
order by r.id desc
limit :limit::bigint
