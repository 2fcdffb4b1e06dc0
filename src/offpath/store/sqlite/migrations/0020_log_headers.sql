-- Headers of an event of the log: a JSON object of texts that travel with it; null where it has none.

alter table offpath_log add column headers text;
