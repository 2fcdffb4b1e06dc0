-- Endpoints that decline the trace: no traceparent goes out with their posts.

alter table offpath_endpoint add column trace integer not null default 1
    constraint endpoint_trace_readable check (trace in (0, 1));
