-- Sums of stats beside their names: a chart of everything reads a tenth of a row.
--
-- A row of before has none; then its body is read. A worker of an older version that merges late
-- rows into one with sums leaves them as they were, until that row is merged into the next step.

alter table offpath_stat add column sums text
constraint stat_sums_readable
check (iif(sums is null, 1, iif(json_valid(sums), json_type(sums) = 'object', 0)));
