-- Deadlines of queued jobs that nobody takes; and less to write for jobs in company or with a limit.

-- Queued jobs with a deadline, for who gives up those that are overdue.
create index job_overdue on offpath.job (deadline)
    where deadline is not null and state in ('scheduled', 'ready');

-- The children of a root are found by their group, so those of a fan-out need not be written into one
-- more index with each change of state.
drop index offpath.job_children;
create index job_children on offpath.job (parent)
    where parent is not null and group_id is distinct from parent;

-- Who changes many jobs with a limit at once adds their nudges up by key, and says so by a setting of
-- its transaction: then the trigger, which adds one for each job, is not called. It is for everybody
-- else, and for a job that became ready without being admitted in any case.
drop trigger limit_new on offpath.job;
create trigger limit_new after insert on offpath.job
    for each row when (
        new.limit_key is not null
        and (
            new.state = 'ready'
            or coalesce(current_setting('offpath_store.nudging', true), '') <> 'together'
        )
        and coalesce(current_setting('offpath_store.admitting', true), '') <> 'on'
    )
    execute function offpath.limit_job();

drop trigger limit_change on offpath.job;
create trigger limit_change after update of state on offpath.job
    for each row when (
        (new.limit_key is not null or old.limit_key is not null)
        and not (old.state = 'ready' and new.state = 'running')
        and (
            old.state is distinct from new.state
            or old.reason is distinct from new.reason
            or old.limit_spec is distinct from new.limit_spec
        )
        and not (
            old.state = 'running'
            and new.finished_at is not null
            and coalesce(current_setting('offpath_store.nudging', true), '') = 'together'
        )
        and coalesce(current_setting('offpath_store.admitting', true), '') <> 'on'
    )
    execute function offpath.limit_job();

-- Who ends the jobs that a gate watches does so in the order of the watches, a page at a time: each page
-- has room for the new versions of all of its rows, so that they need no new index entries.
alter table offpath.gate_watch set (fillfactor = 45);
