-- People look at the children of a job, and at when each of its steps was recorded.

create index offpath_job_child on offpath_job (parent)
where parent is not null and parent <> group_id;

alter table offpath_step add column at integer
    constraint step_at_readable check (at between -62135596800000000 and 253402300799999999);
