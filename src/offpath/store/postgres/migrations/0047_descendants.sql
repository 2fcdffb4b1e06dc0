-- Gates that wait for all that the watched jobs led to: these watches are handed on to new jobs.

alter table offpath.gate_watch add column led boolean not null default false;
