-- People look at when each step of a job was recorded. Of those that are there it is not known.

alter table offpath.step add column at timestamptz;
