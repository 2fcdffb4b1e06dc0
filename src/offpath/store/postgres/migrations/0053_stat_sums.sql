-- Sums of stats beside their names: a chart of everything reads a tenth of a row.
--
-- A row of before has none; then its body is read. The table has a few thousand rows at most. A
-- worker of an older version that merges late rows into one with sums leaves them as they were,
-- until that row itself is merged into the next step.

alter table offpath.stat
    add column sums text
    constraint stat_sums_readable check (sums is null or jsonb_typeof(sums::jsonb) = 'object');
