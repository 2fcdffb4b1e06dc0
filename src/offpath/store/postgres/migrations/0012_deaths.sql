-- New dead letters are counted by when they died, every few seconds.

create index job_died on offpath.job (finished_at) where state = 'dead';
create index letter_made on offpath.letter (created_at) where resolved_at is null;
