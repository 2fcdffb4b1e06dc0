-- name: present_workers
-- Workers with a presence lock whose lease still runs.
select id from offpath_worker where presence = 1 and expires_at > :now and gone_at is null

-- name: silent_workers
-- Late workers with a presence lock that have not been silent for so many leases.
select id, info from offpath_worker
where
    presence = 1
    and gone_at is null
    and expires_at <= :now
    and seen_at + :leases * (expires_at - seen_at) > :now

-- name: live_workers
-- Those that are not gone.
select id from offpath_worker where gone_at is null

-- name: expire_workers
-- Ends the lease of workers that were seen to be dead.
update offpath_worker set expires_at = :now, gone_at = :now
where id in (select value from json_each(:ids)) and expires_at > :now
returning id

-- name: free_cursors
-- Ends the leases of cursors that dead workers hold: the holder's name begins with the worker's.
update offpath_cursor set lease_until = :now
where
    lease_until > :now
    and substr(holder, 1, instr(holder || '/', '/') - 1) in (select value from json_each(:ids))

-- name: free_claims
-- As free_cursors, of claims.
update offpath_claim set expires_at = :now
where
    expires_at > :now
    and substr(holder, 1, instr(holder || '/', '/') - 1) in (select value from json_each(:ids))

-- name: free_messages
-- As free_cursors, of messages.
update offpath_message set due_at = :now
where
    holder is not null and due_at > :now
    and substr(holder, 1, instr(holder || '/', '/') - 1) in (select value from json_each(:ids))
