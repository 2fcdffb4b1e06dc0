-- A unique key is kept as one text with the name of its task. Two pairs are never the same text.
--
-- The pair was task and key with a colon between, and a task's name may have one: "mail" with the key
-- "urgent:42" held the key of "mail:urgent" with "42". The name is written without colons now, which
-- changes nothing where it had none. (A worker of the release before goes on with the old text, so while
-- both run they do not see each other's keys of a task whose name has a colon or a percent sign.)

-- The text of a task's unique key, as offpath/model/options.py makes it.
create function offpath.full_key(task text, key text) returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select replace(replace(task, '%', '%25'), ':', '%3A') || ':' || key
$$;

-- By way of a text that no key has, so that no new one meets another's old one.
update offpath.job j
set unique_key = chr(31) || offpath.full_key(j.task, substr(j.unique_key, length(j.task) + 2))
where j.unique_key is not null
    and (position('%' in j.task) > 0 or position(':' in j.task) > 0)
    and left(j.unique_key, length(j.task) + 1) = j.task || ':';

update offpath.job j
set unique_key = substr(j.unique_key, 2)
where left(j.unique_key, 1) = chr(31);

-- As before, with that text, and with the one conflict named that means that the key is held.
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
    full_key text := offpath.full_key(enqueue.task, enqueue.unique_key);
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
        on conflict (unique_key) where unique_held do nothing
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
