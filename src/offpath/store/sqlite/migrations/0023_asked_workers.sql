-- What operators ask of workers, the last answer of each, and the fault that a job died of.

-- Requests that it has not answered, the oldest first.
alter table offpath_worker add column asked text
    constraint worker_asked_readable check (iif(json_valid(asked), json_type(asked) = 'array', asked is null));
alter table offpath_worker add column answer text
    constraint worker_answer_readable check (iif(json_valid(answer), json_type(answer) = 'object', answer is null));
alter table offpath_worker add column answered_at integer
    constraint worker_answered_at_readable
    check (answered_at between -62135596800000000 and 253402300799999999);

-- Gates that wait, which people look at: the others stay with their jobs.
create index offpath_job_gate_open on offpath_job_gate (id) where state = 'open';

-- Null for deaths that no attempt brought about, and for those from before.
alter table offpath_job add column error_key text;
