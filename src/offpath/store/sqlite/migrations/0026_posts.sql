-- The last posts to each endpoint: when, how long, and with which status.

alter table offpath_endpoint add column posts text
    constraint endpoint_posts_readable
    check (posts is null or iif(json_valid(posts), json_type(posts) = 'array', 0));
