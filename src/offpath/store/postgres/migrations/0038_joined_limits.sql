-- Several limits on one job. Jobs with the same limits stand in one line, which has a row as a key has.

alter table offpath.limit_key
    -- Whether it stands for jobs with several limits: then it has no bound of its own.
    add column line boolean not null default false,
    -- What lines take of the limit, by the counts of their rows.
    add column shared bigint not null default 0
        constraint limit_key_shared check (shared >= 0);

create index limit_key_lines on offpath.limit_key (turn_at nulls first, key) where waiting and line;

-- The limits of each line, and what a job takes of each.
create table offpath.limit_part (
    key text collate "C" not null,
    line text collate "C" not null
        references offpath.limit_key (key) on delete cascade,
    cost bigint not null constraint limit_part_cost check (cost > 0),
    primary key (key, line)
);

create index limit_part_line on offpath.limit_part (line);

-- A key of several limits has their names on lines of their own, each with what it costs behind a tab.
-- To a release that knows no lines it is a key that is paused: it admits none of those jobs.
create function offpath.limit_line_new() returns trigger
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    new.paused := true;
    new.line := octet_length(new.key) <= 1000;
    return new;
end
$$;

create trigger limit_line_new before insert on offpath.limit_key
    for each row when (strpos(new.key, E'\n') > 0 or strpos(new.key, E'\t') > 0)
    execute function offpath.limit_line_new();

create function offpath.limit_line_parts() returns trigger
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    insert into offpath.limit_part (key, line, cost)
    select
        split_part(p.part, E'\t', 1),
        new.key,
        case
            when split_part(p.part, E'\t', 2) ~ '^[0-9]{1,7}$'
                then greatest(split_part(p.part, E'\t', 2)::bigint, 1)
            else 1
        end
    from unnest(string_to_array(new.key, E'\n')) as p (part)
    on conflict (key, line) do nothing;
    return null;
end
$$;

create trigger limit_line_parts after insert on offpath.limit_key
    for each row when (new.line)
    execute function offpath.limit_line_parts();

-- Who changes the count of a line holds its limits, so what it takes of them follows here.
create function offpath.limit_line_took() returns trigger
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    update offpath.limit_key m
    set shared = greatest(m.shared + (new.admitted - old.admitted) * p.cost, 0)
    from offpath.limit_part p
    where p.line = new.key and m.key = p.key;
    return null;
end
$$;

create trigger limit_line_took after update of admitted on offpath.limit_key
    for each row when (new.line and new.admitted <> old.admitted)
    execute function offpath.limit_line_took();

-- What is said of the limits of a line is said of each of them.
create function offpath.limit_line_said() returns trigger
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    insert into offpath.limit_nudge (key, spec)
    select p.part ->> 'key', p.part::text
    from jsonb_array_elements(
        case
            when jsonb_typeof(offpath.read_json(new.spec) -> 'parts') = 'array'
                then offpath.read_json(new.spec) -> 'parts'
            else '[]'
        end
    ) as p (part)
    where p.part ->> 'key' is not null
    order by p.part ->> 'key';
    return null;
end
$$;

create trigger limit_line_said after insert on offpath.limit_nudge
    for each row when (
        new.spec is not null and (strpos(new.key, E'\n') > 0 or strpos(new.key, E'\t') > 0)
    )
    execute function offpath.limit_line_said();
