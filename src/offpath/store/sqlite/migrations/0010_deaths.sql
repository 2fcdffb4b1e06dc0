-- New dead letters are counted by when they died, every few seconds.

create index offpath_job_died on offpath_job (finished_at)
where state = 'dead';

create index offpath_letter_made on offpath_letter (created_at)
where resolved_at is null;
