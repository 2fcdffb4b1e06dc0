-- The door for triggers, psql and other languages refuses what the Python door refuses, and needs no
-- right on any table.

-- What is wrong with the values given to "enqueue", and what to give instead; null when all can be kept.
--
-- The rules are those of "offpath/model/checks.py", one for one: a value that one door takes and the
-- other does not would be a row that some worker cannot read.
create function offpath.enqueue_fault(
    task text, input jsonb, queue text, delay interval, run_at timestamptz, priority integer,
    unique_key text, tags jsonb
) returns text
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    unprintable constant text :=
        '[\u0001-\u001F\u007F-\u00A0\u00AD\u0600-\u0605\u061C\u06DD\u070F\u0890-\u0891\u08E2\u1680'
        '\u180E\u2000-\u200F\u2028-\u202F\u205F-\u2064\u2066-\u206F\u3000\uE000-\uF8FF\uFEFF'
        '\uFFF9-\uFFFB\U000110BD\U000110CD\U00013430-\U00013438\U0001BCA0-\U0001BCA3'
        '\U0001D173-\U0001D17A\U000E0001\U000E0020-\U000E007F\U000F0000-\U000FFFFD'
        '\U00100000-\U0010FFFD]';
    seconds numeric := extract(epoch from enqueue_fault.delay);
begin
    if coalesce(task, '') = '' then
        return 'task must be given: the name of a task';
    elsif length(task) > 200 then
        return format('task must have 1 to 200 characters, not %s', length(task));
    elsif task ~ unprintable then
        return 'task must not have control or unprintable characters';
    elsif jsonb_typeof(input) is distinct from 'object' then
        return 'input must be a JSON object of arguments by name';
    elsif octet_length(input::text) > 1048576 then
        return format(
            'input has %s bytes, over the limit of 1048576: keep big data elsewhere and give its key',
            octet_length(input::text)
        );
    elsif not length(queue) between 1 and 200 then
        return format('queue must have 1 to 200 characters, not %s', length(queue));
    elsif queue ~ unprintable then
        return 'queue must not have control or unprintable characters';
    elsif priority < -2147483647 then
        return 'priority must be between -2147483647 and 2147483647';
    elsif not seconds between 0 and 10000000000 then
        return 'delay must be between 0 and 10000000000 seconds';
    elsif not (run_at >= '0001-01-01 00:00:00+00' and run_at < '10000-01-01 00:00:00+00') then
        return 'run_at must be a time between the years 1 and 9999 (UTC)';
    elsif not length(unique_key) between 1 and 500 then
        return format('unique_key must have 1 to 500 characters, not %s', length(unique_key));
    end if;
    return offpath.enqueue_tags_fault(tags);
end
$$;

-- What is wrong with the tags given to "enqueue"; null when they can be kept.
create function offpath.enqueue_tags_fault(tags jsonb) returns text
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if tags is null then
        return null;
    elsif jsonb_typeof(tags) <> 'array' then
        return 'tags must be a JSON array of texts';
    elsif exists (
        select from jsonb_array_elements(tags) as one (tag)
        where jsonb_typeof(one.tag) <> 'string' or length(one.tag #>> '{}') not between 1 and 200
    ) then
        return 'tags must be texts of 1 to 200 characters';
    elsif (select count(distinct one.tag) from jsonb_array_elements(tags) as one (tag)) > 50 then
        return 'a job can have at most 50 tags';
    end if;
    return null;
end
$$;

-- Adds a job in the caller's transaction, with the rights of who owns the tables: a caller needs no
-- more than to execute it.
--
-- "input" is an object of the task's arguments by name. With "unique_key" the id of the waiting or
-- running job that has the key is returned, if there is one, and nothing is added.
create or replace function offpath.enqueue(
    task text,
    input jsonb default '{}',
    queue text default 'default',
    priority integer default 0,
    delay interval default '0',
    run_at timestamptz default null,
    unique_key text default null,
    tags jsonb default null
) returns uuid
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    fault text := offpath.enqueue_fault(
        enqueue.task, enqueue.input, enqueue.queue, enqueue.delay, enqueue.run_at,
        enqueue.priority, enqueue.unique_key, enqueue.tags
    );
    new_job uuid;
    added uuid;
    moment timestamptz := clock_timestamp();
    due timestamptz;
    kept_tags jsonb;
    full_key text := enqueue.task || ':' || enqueue.unique_key;
begin
    if fault is not null then
        raise exception 'offpath.enqueue: %', fault using errcode = '22023';
    end if;
    new_job := offpath.new_id();
    due := coalesce(enqueue.run_at, moment + coalesce(enqueue.delay, interval '0'));
    select jsonb_agg(one.tag order by one.place) into kept_tags
    from (
        select each.tag, min(each.n) as place
        from jsonb_array_elements(enqueue.tags) with ordinality as each (tag, n)
        group by each.tag
    ) as one;
    for round in 1..10 loop
        insert into offpath.job (
            id, state, task, queue, priority, enqueued_at, run_at, input, fingerprint, options,
            tags, unique_key, unique_states, unique_held
        )
        values (
            new_job,
            case when due <= moment then 'ready' else 'scheduled' end,
            enqueue.task, coalesce(enqueue.queue, 'default'), coalesce(enqueue.priority, 0),
            moment, due, enqueue.input::text, '', '{"of_task":true}', kept_tags, full_key,
            case when full_key is not null then '["blocked", "queued", "running"]'::jsonb end,
            full_key is not null
        )
        on conflict do nothing
        returning id into added;
        if added is not null then
            return added;
        end if;
        update offpath.job j set unique_held = false
        where j.unique_key = full_key and j.unique_held and j.unique_until <= moment;
        if not found then
            select j.id into added from offpath.job j
            where j.unique_key = full_key and j.unique_held;
            if added is not null then
                return added;
            end if;
        end if;
    end loop;
    raise exception 'offpath.enqueue: the unique key changes hands too fast; try again'
        using errcode = '40001';
end
$$;

-- Who may add rows to the table of jobs went through the door until now; nobody else gets through it.
revoke all on function offpath.enqueue(text, jsonb, text, integer, interval, timestamptz, text, jsonb)
    from public;
do $$
declare
    who regrole;
    may text;
begin
    for who in
        select distinct a.grantee::regrole
        from pg_catalog.pg_class c
        cross join lateral pg_catalog.aclexplode(c.relacl) as a
        where c.oid = 'offpath.job'::pg_catalog.regclass and a.privilege_type = 'INSERT'
    loop
        may := case when who::oid = 0 then 'public' else who::text end;
        execute pg_catalog.format(
            'grant execute on function offpath.enqueue'
            '(text, jsonb, text, integer, interval, timestamptz, text, jsonb) to %s', may
        );
    end loop;
end
$$;
