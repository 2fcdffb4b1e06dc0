-- The rows of before keep to the rules as they are written now.

alter table offpath.job validate constraint job_readable;
