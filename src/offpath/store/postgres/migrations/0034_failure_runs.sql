-- Of a failed attempt: its start, and the worker that ran it.

alter table offpath.failure add column started_at timestamptz, add column worker text;
