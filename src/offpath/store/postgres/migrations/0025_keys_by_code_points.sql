-- Keys are equal and ordered by their code points, as in Python, whatever the database's collation is.
--
-- No row is written anew, but the indexes are, and nobody can use the table meanwhile. So its rules, which
-- would be checked on each row too, are put in force for what is written from now on; the next step checks
-- the rows that are there, while everybody goes on.

do $$
declare
    home constant text := trim('"' from 'offpath');
    keys constant text[] := array[
        'job.state', 'job.queue', 'job.task', 'job.group_id', 'job.parent', 'job.worker',
        'job.unique_key', 'job.wait_target', 'job.wait_event', 'job.suspected', 'job_group.id',
        'worker.id', 'claim.key', 'step.kind', 'step.name', 'signal.target', 'signal.event',
        'queue_pause.queue'
    ];
    rules constant text[] := array[
        'job_state', 'job_holder', 'job_finished', 'job_unique_scope', 'job_readable'
    ];
    views oid[];
    triggers oid[];
    other text;
    steps text[];
    it text;
begin
    -- All at once, so that a table that is in use is found before the first index is built.
    lock table
        offpath.job, offpath.job_group, offpath.worker, offpath.claim, offpath.step, offpath.signal,
        offpath.queue_pause
        in access exclusive mode;

    -- The collation of a column that a view or a trigger names cannot be changed. The views of the
    -- schema and the triggers of its tables are dropped, and made again as they were.
    with key as (
        select a.attrelid, a.attnum
        from pg_attribute a
        join pg_class c on c.oid = a.attrelid
        where c.relnamespace = quote_ident(home)::regnamespace
            and c.relname || '.' || a.attname = any (keys)
    ),
    naming as (
        select distinct d.classid, d.objid
        from pg_depend d
        join key k on d.refclassid = 'pg_class'::regclass
            and d.refobjid = k.attrelid and d.refobjsubid = k.attnum
    )
    select
        (
            select array_agg(distinct c.oid)
            from naming n
            join pg_rewrite r on n.classid = 'pg_rewrite'::regclass and r.oid = n.objid
            join pg_class c on c.oid = r.ev_class
            where c.relnamespace = quote_ident(home)::regnamespace and c.relkind = 'v'
        ),
        (
            select array_agg(t.oid)
            from naming n
            join pg_trigger t on n.classid = 'pg_trigger'::regclass and t.oid = n.objid
        )
    into views, triggers;

    -- A view elsewhere is somebody else's.
    select min(r.ev_class::regclass::text) into other
    from pg_depend d
    join pg_rewrite r on d.classid = 'pg_rewrite'::regclass and r.oid = d.objid
    where d.refclassid = 'pg_class'::regclass
        and r.ev_class <> all (coalesce(views, '{}'))
        and (
            d.refobjid = any (views)
            or exists (
                select
                from pg_attribute a
                join pg_class c on c.oid = a.attrelid
                where a.attrelid = d.refobjid and a.attnum = d.refobjsubid
                    and c.relnamespace = quote_ident(home)::regnamespace
                    and c.relname || '.' || a.attname = any (keys)
            )
        );
    if other is not null then
        raise exception 'the view % reads keys of the schema %, which get another collation: '
            'drop the view, run this step again, and make the view again', other, home
            using errcode = 'dependent_objects_still_exist';
    end if;

    select array_agg(step.statement order by step.place) into steps
    from (
        select 1 as place, format('drop view %s', v.oid::regclass) as statement
        from unnest(views) as v (oid)
        union all
        select 1, format('drop trigger %I on %s', t.tgname, t.tgrelid::regclass)
        from pg_trigger t
        where t.oid = any (triggers)
        union all
        select 1, format('alter table %s drop constraint %I', r.conrelid::regclass, r.conname)
        from pg_constraint r
        where r.conrelid = 'offpath.job'::regclass and r.conname = any (rules)
        union all
        select 2, format(
            'alter table %I.%I %s', home, k.parts[1],
            string_agg(format('alter column %I type text collate "C"', k.parts[2]), ', ')
        )
        from (select string_to_array(key, '.') as parts from unnest(keys) as key) as k
        group by k.parts[1]
        union all
        select 3, format(
            'alter table %s add constraint %I %s%s', r.conrelid::regclass, r.conname,
            pg_get_constraintdef(r.oid), case when r.convalidated then ' not valid' end
        )
        from pg_constraint r
        where r.conrelid = 'offpath.job'::regclass and r.conname = any (rules)
        union all
        select 3, format(
            'create view %s%s as %s', c.oid::regclass,
            ' with (' || array_to_string(c.reloptions, ', ') || ')', pg_get_viewdef(c.oid)
        )
        from pg_class c
        where c.oid = any (views)
        union all
        select 4, format('alter view %s owner to %I', c.oid::regclass, pg_get_userbyid(c.relowner))
        from pg_class c
        where c.oid = any (views) and pg_get_userbyid(c.relowner) <> current_user
        union all
        -- what its owner gives by default on what is new
        select distinct 5, format('revoke all on %s from %s', c.oid::regclass, a.grantee::regrole)
        from pg_class c, pg_default_acl d, aclexplode(d.defaclacl) a
        where c.oid = any (views) and d.defaclobjtype = 'r'
            and a.grantee not in (0, c.relowner)
        union all
        select 6, format(
            'grant %s%s on %s to %s%s', a.privilege_type, a.columns, a.view::regclass,
            case when a.grantee = 0 then 'public' else a.grantee::regrole::text end,
            case when a.is_grantable then ' with grant option' else '' end
        )
        from (
            select c.oid as view, c.relowner, '' as columns, given.*
            from pg_class c, aclexplode(c.relacl) given
            where c.oid = any (views)
            union all
            select c.oid, c.relowner, format(' (%I)', b.attname), given.*
            from pg_class c
            join pg_attribute b on b.attrelid = c.oid, aclexplode(b.attacl) given
            where c.oid = any (views)
        ) as a
        where a.grantee <> a.relowner
        union all
        select 7, pg_get_triggerdef(t.oid)
        from pg_trigger t
        where t.oid = any (triggers)
        union all
        select 8, format(
            'alter table %s %s trigger %I', t.tgrelid::regclass,
            case t.tgenabled
                when 'D' then 'disable' when 'A' then 'enable always' else 'enable replica'
            end,
            t.tgname
        )
        from pg_trigger t
        where t.oid = any (triggers) and t.tgenabled <> 'O'
    ) as step;

    foreach it in array steps loop
        execute it;
    end loop;
end
$$;
