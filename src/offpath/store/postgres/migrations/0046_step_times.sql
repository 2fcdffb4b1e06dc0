-- People look at when each step of a job was recorded. Of those that are there it is not known.

alter table offpath.step
    add column at timestamptz,
    add constraint step_at_readable check (
        at is null or at >= '0001-01-01 00:00:00+00' and at < '10000-01-01 00:00:00+00'
    );
