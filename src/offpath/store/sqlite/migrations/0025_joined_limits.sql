-- Several limits on one job. Jobs with the same limits stand in one line, which has a row as a key has.

alter table offpath_limit add column parts integer not null default 0
    constraint limit_parts_readable check (parts in (0, 1));

-- What lines take of the limit; kept by the trigger below.
alter table offpath_limit add column shared integer not null default 0
    constraint limit_shared_readable check (shared >= 0 and shared < 4611686018427387904);

-- The limits of each line, and what a job takes of each.
create table offpath_limit_part (
    key text not null,
    line text not null,
    cost integer not null check (cost > 0 and cost < 4611686018427387904),
    primary key (key, line)
) strict, without rowid;

create index offpath_limit_part_line on offpath_limit_part (line);

-- Whatever moves a job of a line, what the line takes of its limits follows.
create trigger offpath_limit_shared after update of admitted on offpath_limit
when new.parts > 0 and new.admitted <> old.admitted
begin
    update offpath_limit set shared = max(shared + (new.admitted - old.admitted) * (
        select part.cost from offpath_limit_part as part
        where part.key = offpath_limit.key and part.line = new.key
    ), 0)
    where key in (select part.key from offpath_limit_part as part where part.line = new.key);
end;

create trigger offpath_limit_line_gone after delete on offpath_limit
when old.parts > 0
begin
    update offpath_limit set shared = max(shared - old.admitted * (
        select part.cost from offpath_limit_part as part
        where part.key = offpath_limit.key and part.line = old.key
    ), 0)
    where key in (select part.key from offpath_limit_part as part where part.line = old.key);
    delete from offpath_limit_part where line = old.key;
end;
