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
