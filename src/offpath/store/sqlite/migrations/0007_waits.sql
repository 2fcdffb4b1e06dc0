-- Waits: deadlines of queued jobs, signals that are left, watches in the order in which jobs run.
--
-- Times are whole microseconds since 1970-01-01 UTC.

-- Deadlines of all that has not ended, running jobs included. It does not name the state: a lease
-- or a settle would weigh it for every job.
create index offpath_job_deadline on offpath_job (deadline)
where deadline is not null and finished_at is null;

-- The signal that it was woken for and has not taken.
alter table offpath_job add column called_target text;

alter table offpath_job add column called_event text;

-- Where a job that was woken has ended without taking the signal: the next one is to be woken.
create table offpath_signal_left (
    target text not null,
    event text not null,
    primary key (target, event)
) strict, without rowid;

create trigger offpath_job_left_signal after update of finished_at on offpath_job
when old.called_target is not null and old.finished_at is null and new.finished_at is not null
begin
    insert into offpath_signal_left (target, event)
    select old.called_target, old.called_event
    where not exists (
        select 1 from offpath_signal_left as known
        where known.target = old.called_target and known.event = old.called_event
    );
end;

-- Whom gates watch, again, as a table with rows in the order of their making. That is about the
-- order in which the jobs end; by id, which says nothing of it, each end was a page of its own.
create table offpath_gate_watch_new (
    job text not null,
    gate text not null,
    place integer not null,
    -- The job was not there when the gate was made.
    early integer not null default 0,
    outcome text check (outcome = 'succeeded' or outcome = 'failed'),
    unique (job, gate)
) strict;

insert into offpath_gate_watch_new (job, gate, place, early, outcome)
select job, gate, place, early, outcome from offpath_gate_watch order by gate, place;

drop trigger offpath_job_awaited;

drop table offpath_gate_watch;

alter table offpath_gate_watch_new rename to offpath_gate_watch;

create index offpath_gate_watch_gate on offpath_gate_watch (gate, place);

create index offpath_gate_watch_early on offpath_gate_watch (job)
where early = 1;

create trigger offpath_job_awaited after insert on offpath_job
when exists (
    select 1 from offpath_gate_watch as early where early.early = 1 and early.job = new.id
)
begin
    update offpath_job set watched = 1 where seq = new.seq;
end;
