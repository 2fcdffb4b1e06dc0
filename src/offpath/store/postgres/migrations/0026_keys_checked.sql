-- The rows of before keep to the rules that were made anew with the keys' collation.

alter table offpath.job validate constraint job_state;
alter table offpath.job validate constraint job_holder;
alter table offpath.job validate constraint job_finished;
alter table offpath.job validate constraint job_unique_scope;
alter table offpath.job validate constraint job_readable;
