-- Headers of a job: a JSON object of texts that travel with it; null where it has none.

alter table offpath.job add column headers text;

-- What is wrong with the headers given to "enqueue"; null when they can be kept. The rules are those of
-- "offpath/model/headers.py", one for one.
create function offpath.enqueue_headers_fault(headers jsonb) returns text
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    size bigint;
begin
    if headers is null then
        return null;
    elsif jsonb_typeof(headers) <> 'object' then
        return 'headers must be a JSON object of texts by name';
    elsif exists (select from jsonb_each(headers) as h (name, value) where jsonb_typeof(h.value) <> 'string') then
        return 'headers must be texts by name';
    elsif exists (
        select from jsonb_object_keys(headers) as h (name)
        where h.name !~ '^[a-z0-9][a-z0-9_.-]{0,63}$' or h.name ~ '\n'
    ) then
        return 'the name of a header must have 1 to 64 characters of a-z, 0-9, _, . and -, and begin '
            'with a letter or a digit';
    elsif (select count(*) from jsonb_object_keys(headers)) > 64 then
        return 'a job can have at most 64 headers';
    end if;
    select sum(octet_length(h.name) + octet_length(h.value)) into size
    from jsonb_each_text(headers) as h (name, value);
    if size > 8192 then
        return format('the headers have %s bytes, over the limit of 8192', size);
    end if;
    return null;
end
$$;

-- As before, with headers.
create function offpath.enqueue(
    task text,
    input jsonb default '{}',
    queue text default null,
    priority integer default null,
    delay interval default '0',
    run_at timestamptz default null,
    unique_key text default null,
    tags jsonb default null,
    headers jsonb default null
) returns uuid
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    fault text := coalesce(
        offpath.enqueue_fault(
            enqueue.task, enqueue.input, enqueue.queue, enqueue.delay, enqueue.run_at,
            enqueue.priority, enqueue.unique_key, enqueue.tags
        ),
        offpath.enqueue_headers_fault(enqueue.headers)
    );
    own jsonb := coalesce(
        (select jsonb_strip_nulls(d.template) from offpath.task_default d where d.task = enqueue.task), '{}'
    );
    claim jsonb := case
        when enqueue.unique_key is null then own -> 'unique'
        else jsonb_build_object(
            'key', offpath.full_key(enqueue.task, enqueue.unique_key),
            'states', '["blocked", "queued", "running"]'::jsonb
        )
    end;
    held constant boolean := coalesce(claim -> 'states' @> '"queued"', false);
    room constant jsonb := own -> 'limit';
    failing_fast constant boolean := coalesce(own ->> 'group_policy' = 'fail_fast', false);
    new_job uuid;
    added uuid;
    moment timestamptz := clock_timestamp();
    due timestamptz;
    latest timestamptz;
    kept_tags jsonb;
begin
    if fault is not null then
        raise exception 'offpath.enqueue: %', fault using errcode = '22023';
    end if;
    new_job := offpath.new_id();
    due := coalesce(enqueue.run_at, moment + coalesce(enqueue.delay, interval '0'));
    latest := coalesce(
        (own ->> 'deadline')::timestamptz,
        moment + (own ->> 'deadline_in')::double precision * interval '1 second'
    );
    select jsonb_agg(one.tag order by one.place) into kept_tags
    from (
        select each.tag, min(each.n) as place
        from jsonb_array_elements(coalesce(enqueue.tags, own -> 'tags'))
            with ordinality as each (tag, n)
        group by each.tag
    ) as one;
    -- A statement of the library in this transaction may have said that it adds the nudges of limits up.
    perform set_config('offpath_store.nudging', '', true);
    for round in 1..10 loop
        insert into offpath.job (
            id, state, task, queue, priority, enqueued_at, run_at, deadline, deadline_in, input,
            fingerprint, options, grouped, tags, unique_key, unique_states, unique_until, unique_held,
            announce, blocked_until, reason, limit_key, limit_spec, fair_key, headers
        )
        values (
            new_job,
            case when due > moment then 'scheduled' when room is null then 'ready' else 'blocked' end,
            enqueue.task, coalesce(enqueue.queue, own ->> 'queue', 'default'),
            coalesce(enqueue.priority, (own ->> 'priority')::integer, 0),
            moment, due, latest, (own ->> 'deadline_in')::double precision, enqueue.input::text,
            '', '{"of_task":true}', failing_fast, kept_tags, claim ->> 'key', claim -> 'states',
            moment + (claim ->> 'period')::double precision * interval '1 second', held,
            coalesce((own ->> 'announce')::smallint, 0),
            case when room is not null and due <= moment then latest end,
            case when room is not null and due <= moment then 'limit' end,
            room ->> 'key', room::text, own ->> 'fair_key',
            nullif(enqueue.headers, '{}')::text
        )
        on conflict (unique_key) where unique_held do nothing
        returning id into added;
        if added is not null then
            if failing_fast then
                insert into offpath.job_group (id, open, policy) values (added::text, 1, 'fail_fast');
            end if;
            return added;
        end if;
        update offpath.job j set unique_held = false
        where j.unique_key = claim ->> 'key' and j.unique_held and j.unique_until <= moment;
        if not found then
            select j.id into added from offpath.job j
            where j.unique_key = claim ->> 'key' and j.unique_held;
            if claim ->> 'policy' = 'refuse' and added is not null then
                raise exception 'offpath.enqueue: job % has the unique key of the task %',
                    added, enqueue.task using errcode = '23505';
            elsif claim ->> 'policy' = 'replace' and added is not null then
                raise exception 'offpath.enqueue: the task % replaces job %, which has its unique key, '
                    'and SQL cannot: give unique_key, or enqueue with the library', enqueue.task, added
                    using errcode = '0A000';
            elsif added is not null then
                return added;
            end if;
        end if;
    end loop;
    raise exception 'offpath.enqueue: the unique key changes hands too fast; try again'
        using errcode = '40001';
end
$$;

-- Who could execute the door before can execute this one.
do $$
declare
    who regrole;
    may text;
begin
    revoke all on function offpath.enqueue(
        text, jsonb, text, integer, interval, timestamptz, text, jsonb, jsonb
    ) from public;
    for who in
        select distinct a.grantee::regrole
        from pg_catalog.pg_proc p
        cross join lateral pg_catalog.aclexplode(p.proacl) as a
        where p.oid = 'offpath.enqueue(text, jsonb, text, integer, interval, timestamptz, text, jsonb)'
                ::pg_catalog.regprocedure
            and a.privilege_type = 'EXECUTE'
    loop
        may := case when who::oid = 0 then 'public' else who::text end;
        execute pg_catalog.format(
            'grant execute on function offpath.enqueue'
            '(text, jsonb, text, integer, interval, timestamptz, text, jsonb, jsonb) to %s', may
        );
    end loop;
end
$$;

drop function offpath.enqueue(text, jsonb, text, integer, interval, timestamptz, text, jsonb);
