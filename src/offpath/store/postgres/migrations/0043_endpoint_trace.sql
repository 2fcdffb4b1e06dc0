-- Endpoints that decline the trace: no traceparent goes out with their posts.

alter table offpath.endpoint add column trace boolean not null default true;
