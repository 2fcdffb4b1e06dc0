-- Stats of five minutes, of a quarter of an hour and of a day: a long range reads few rows.
--
-- SQLite changes no rule of a table that is there, so the rows move to one that has the new rule.

create table offpath_stat_new (
    step integer not null
        constraint stat_step check (step in (10, 60, 300, 900, 3600, 86400)),
    at integer not null
        constraint stat_at_readable check (at between -62135596800 and 253402300799),
    source text not null,
    body text not null
        constraint stat_body_readable
        check (iif(json_valid(body), json_type(body) = 'object', 0)),
    primary key (step, at, source)
) strict, without rowid;

insert into offpath_stat_new (step, at, source, body)
select step, at, source, body from offpath_stat order by step, at, source;

drop table offpath_stat;

alter table offpath_stat_new rename to offpath_stat;
