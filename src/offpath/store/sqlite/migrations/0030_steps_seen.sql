-- People look at the children of a job, and at when each of its steps was recorded.

create index offpath_job_child on offpath_job (parent)
where parent is not null and parent <> group_id;

alter table offpath_step add column at integer;
