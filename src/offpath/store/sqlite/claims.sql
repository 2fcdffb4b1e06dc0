-- name: claim
-- Takes a name that is free, or is held by the one who asks; no row in the answer when it is not.
insert into offpath_claim as held (key, holder, expires_at)
values (:key, :holder, :now + :span)
on conflict (key) do update set
    holder = excluded.holder,
    expires_at = case
        when :renew or held.expires_at <= :now then excluded.expires_at else held.expires_at
    end
where held.holder = excluded.holder or held.expires_at <= :now
returning 1

-- name: release_claim
-- Gives a name back; no row in the answer when it is not held by the one who asks.
delete from offpath_claim where key = :key and holder = :holder returning 1
