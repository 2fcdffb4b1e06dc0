-- Headers of a job: a JSON object of texts that travel with it; null where it has none.

alter table offpath_job add column headers text;
