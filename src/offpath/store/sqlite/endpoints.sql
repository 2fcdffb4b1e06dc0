-- name: add_endpoint
-- Adds an endpoint, unless there is one of its name.
insert into offpath_endpoint (
    name, url, secrets, topics, streams, headers, trace, state, reason, failures,
    failing_since, blocked_until, created_at
)
values (
    :name, :url, :secrets, :topics, :streams, :headers, :trace, :state, :reason,
    :failures, :failing_since, :blocked_until, :now
)
on conflict (name) do nothing
returning 1

-- name: change_endpoint
-- Changes where and how an endpoint is posted to; its state and health are kept.
update offpath_endpoint set
    url = :url,
    secrets = :secrets,
    topics = :topics,
    streams = :streams,
    headers = :headers,
    trace = :trace
where name = :name
returning 1

-- name: endpoints
-- Every endpoint, by name.
select
    name, url, secrets, topics, streams, headers, trace, state, reason, failures,
    failing_since, blocked_until, created_at
from offpath_endpoint
order by name
limit 10000

-- name: set_endpoint
-- Enables, pauses or disables an endpoint. Enabling it forgets what failed.
update offpath_endpoint set
    state = :state,
    reason = :reason,
    failures = case when :state = 'enabled' then 0 else failures end,
    failing_since = case when :state <> 'enabled' then failing_since end,
    blocked_until = case when :state <> 'enabled' then blocked_until end
where name = :name
returning 1

-- name: note_endpoint
-- Records how a post went; answers with the endpoint.
update offpath_endpoint set
    failures = case when :delivered then 0 else failures + 1 end,
    failing_since = case when not :delivered then coalesce(failing_since, :now) end,
    blocked_until = case
        when :delivered or blocked_until is null then :now + :block
        else max(blocked_until, coalesce(:now + :block, blocked_until))
    end,
    reason = case when :disable is not null and state = 'enabled' then :disable else reason end,
    state = case when :disable is not null and state = 'enabled' then 'disabled' else state end
where name = :name
returning
    name, url, secrets, topics, streams, headers, trace, state, reason, failures,
    failing_since, blocked_until, created_at

-- name: delete_endpoint
-- Removes an endpoint.
delete from offpath_endpoint where name = :name
returning 1

-- name: hold_posts
-- The kept posts of these endpoints.
select name, posts
from offpath_endpoint
where name in (select value from json_each(:names))
order by name

-- name: set_posts
-- Keeps the posts of endpoints.
update offpath_endpoint set posts = new.value ->> 'posts'
from json_each(:batch) as new
where offpath_endpoint.name = new.value ->> 'name'
returning 1

-- name: posts
-- The kept posts of an endpoint.
select posts from offpath_endpoint where name = :name
