-- Stats of five minutes, of a quarter of an hour and of a day: a long range reads few rows.
--
-- The table has a few thousand rows at most, so the look at all of them takes no time.

alter table offpath.stat
    drop constraint stat_step,
    add constraint stat_step check (step in (10, 60, 300, 900, 3600, 86400));
