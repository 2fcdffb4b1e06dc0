-- name: claim_put
-- Takes a name that is free or whose time has passed; the holder keeps it.
insert into offpath_claim (key, holder, expires_at) values (:key, :holder, :expires_at)
on conflict (key) do update set
    holder = excluded.holder,
    expires_at = excluded.expires_at
where offpath_claim.expires_at <= :now

-- name: claim_holder
select holder from offpath_claim where key = :key

-- name: claim_release
delete from offpath_claim where key = :key and holder = :holder returning 1

-- name: claim_prune
delete from offpath_claim
where key in (
    select key from offpath_claim where expires_at <= :now order by expires_at limit :limit
)
