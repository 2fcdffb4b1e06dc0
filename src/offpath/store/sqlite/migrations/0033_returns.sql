-- An action on all jobs that matched as it was asked for leaves alone those that ended and came back since.

alter table offpath_job add column redriven_at integer
    constraint job_redriven_at_readable check (redriven_at between -62135596800000000 and 253402300799999999);
