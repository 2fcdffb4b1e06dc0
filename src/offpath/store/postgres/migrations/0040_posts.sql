-- The last posts to each endpoint: when, how long, and with which status.

alter table offpath.endpoint
    add column posts jsonb,
    add constraint endpoint_posts_readable check (jsonb_typeof(posts) = 'array');
