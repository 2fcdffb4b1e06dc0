-- name: endpoint_known
select 1 from offpath_endpoint where name = :name

-- name: endpoint_put
-- Adds an endpoint; of one that exists, state and health are kept.
insert into offpath_endpoint (
    name, url, secrets, topics, streams, headers, state, reason, failures, failing_since,
    blocked_until, created_at
)
values (
    :name, :url, :secrets, :topics, :streams, :headers, :state, :reason, :failures,
    :failing_since, :blocked_until, :now
)
on conflict (name) do update set
    url = excluded.url,
    secrets = excluded.secrets,
    topics = excluded.topics,
    streams = excluded.streams,
    headers = excluded.headers

-- name: endpoint_list
select
    name, url, secrets, topics, streams, headers, state, reason, failures, failing_since,
    blocked_until, created_at
from offpath_endpoint
order by name
limit :limit

-- name: endpoint_switch
-- Another state; enabling clears what is held against it.
update offpath_endpoint set
    state = :state,
    reason = :reason,
    failures = case when :state = 'enabled' then 0 else failures end,
    failing_since = case when :state <> 'enabled' then failing_since end,
    blocked_until = case when :state <> 'enabled' then blocked_until end
where name = :name
returning name

-- name: endpoint_note
-- How a post went.
update offpath_endpoint set
    failures = case when :delivered then 0 else failures + 1 end,
    failing_since = case when not :delivered then coalesce(failing_since, :now) end,
    blocked_until = case
        when :delivered or blocked_until is null then :blocked_until
        else max(blocked_until, coalesce(:blocked_until, blocked_until))
    end,
    reason = case when :disable is not null and state = 'enabled' then :disable else reason end,
    state = case when :disable is not null and state = 'enabled' then 'disabled' else state end
where name = :name
returning
    name, url, secrets, topics, streams, headers, state, reason, failures, failing_since,
    blocked_until, created_at

-- name: endpoint_delete
delete from offpath_endpoint where name = :name
returning name
