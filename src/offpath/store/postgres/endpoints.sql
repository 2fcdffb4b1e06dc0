-- name: add_endpoint
-- Adds an endpoint, unless there is one of its name.
insert into offpath.endpoint as e (
    name, created_at, failing_since, blocked_until, failures, state, reason, url, secrets, topics,
    streams, headers, trace
)
select
    :name::text, coalesce(:now::text::timestamptz, clock_timestamp()),
    :failing_since::text::timestamptz, :blocked_until::text::timestamptz, :failures::bigint,
    :state::text, :reason::text, :url::text, :secrets::text::jsonb, :topics::text::jsonb,
    :streams::text::jsonb, :headers::text, :trace::int = 1
on conflict (name) do nothing
returning 1

-- name: change_endpoint
-- Changes where and how an endpoint is posted to; its state and health are kept.
update offpath.endpoint
set url = :url::text,
    secrets = :secrets::text::jsonb,
    topics = :topics::text::jsonb,
    streams = :streams::text::jsonb,
    headers = :headers::text,
    trace = :trace::int = 1
where name = :name::text
returning 1

-- name: endpoints
-- Every endpoint, by name.
select
    e.name, e.url, e.secrets::text, e.topics::text, e.streams::text, e.headers,
    e.trace::int, e.state, e.reason, e.failures, offpath.micros(e.failing_since), offpath.micros(e.blocked_until),
    offpath.micros(e.created_at)
from offpath.endpoint e
order by e.name
limit 10000

-- name: set_endpoint
-- Enables, pauses or disables an endpoint. Enabling it forgets what failed.
update offpath.endpoint e
set state = :state::text,
    reason = :reason::text,
    failures = case when :state::text = 'enabled' then 0 else e.failures end,
    failing_since = case when :state::text = 'enabled' then null else e.failing_since end,
    blocked_until = case when :state::text = 'enabled' then null else e.blocked_until end
where e.name = :name::text
returning 1

-- name: note_endpoint
-- Records how a post went; answers with the endpoint.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
update offpath.endpoint e
set failures = case when :delivered::int = 1 then 0 else e.failures + 1 end,
    failing_since = case
        when :delivered::int = 0 then coalesce(e.failing_since, (select clock.now from clock))
    end,
    blocked_until = greatest(
        case when :delivered::int = 0 then e.blocked_until end,
        (select clock.now from clock) + :block::double precision * interval '1 second'
    ),
    state = case
        when e.state = 'enabled' and :disable::text is not null then 'disabled' else e.state
    end,
    reason = case
        when e.state = 'enabled' and :disable::text is not null then :disable::text else e.reason
    end
where e.name = :name::text
returning
    e.name, e.url, e.secrets::text, e.topics::text, e.streams::text, e.headers,
    e.trace::int, e.state, e.reason, e.failures, offpath.micros(e.failing_since), offpath.micros(e.blocked_until),
    offpath.micros(e.created_at)

-- name: delete_endpoint
-- Removes an endpoint.
delete from offpath.endpoint where name = :name::text returning 1

-- name: hold_posts
-- The kept posts of these endpoints, locked by name.
select e.name, e.posts::text
from offpath.endpoint e
where e.name = any (array(select jsonb_array_elements_text(:names::text::jsonb)))
order by e.name
for update

-- name: set_posts
-- Keeps the posts of endpoints that are locked.
update offpath.endpoint e
set posts = b.posts::jsonb
from jsonb_to_recordset(:batch::text::jsonb) as b (name text, posts text)
where e.name = b.name
returning 1

-- name: posts
-- The kept posts of an endpoint.
select e.posts::text from offpath.endpoint e where e.name = :name::text
