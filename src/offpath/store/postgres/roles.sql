-- name: make_roles
-- The roles of this schema, which nobody can log in as; and the owner owns what is in it.
do $$
declare
    home constant text := trim('"' from 'offpath');
    kind text;
    it text;
begin
    foreach kind in array array['owner', 'worker', 'enqueuer', 'reader', 'operator', 'scaler'] loop
        continue when exists (select from pg_roles r where r.rolname = home || '_' || kind);
        begin
            execute format('create role %I nologin', home || '_' || kind);
        exception when duplicate_object or unique_violation then
            null;  -- roles are of the whole server: another database may make them in this moment
        end;
    end loop;
    if not pg_has_role(home || '_owner', 'member') then
        execute format('grant %I to %I', home || '_owner', current_user);
    end if;
    if not has_database_privilege(home || '_owner', current_database(), 'create') then
        execute format('grant create on database %I to %I', current_database(), home || '_owner');
    end if;
    if not exists (
        select from pg_namespace n
        where n.nspname = home and pg_get_userbyid(n.nspowner) = home || '_owner'
    ) then
        execute format('alter schema %I owner to %I', home, home || '_owner');
    end if;
    for it in
        select format('alter table %s owner to %I', c.oid::regclass, home || '_owner')
        from pg_class c
        join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = home and c.relkind in ('r', 'v')
            and pg_get_userbyid(c.relowner) <> home || '_owner'
        union all
        select format('alter function %s owner to %I', p.oid::regprocedure, home || '_owner')
        from pg_proc p
        join pg_namespace n on n.oid = p.pronamespace
        where n.nspname = home and pg_get_userbyid(p.proowner) <> home || '_owner'
    loop
        execute it;
    end loop;
end
$$

-- name: make_views
-- What may be looked at by whoever may not see what jobs are about: neither inputs, payloads, results,
-- values, texts of errors, keys of users, nor URLs and secrets of endpoints.
create or replace view offpath.v_job with (security_barrier) as
select
    j.id, j.state, j.reason, j.task, j.queue, j.priority, j.group_id, j.parent, j.worker,
    j.attempt, j.deliveries, j.losses, j.redrives, j.enqueued_at, j.run_at, j.deadline,
    j.started_at, j.finished_at, j.expires_at, j.cancel_requested
from offpath.job j;

create or replace view offpath.v_failure with (security_barrier) as
select f.job, f.delivery, f.attempt, f.at, f.kind, f.type from offpath.failure f;

create or replace view offpath.v_message with (security_barrier) as
select
    m.id, m.box, m.stream, m.topic, m.state, m.reason, m.attempt, m.deliveries, m.created_at,
    m.due_at, m.finished_at, m.expires_at
from offpath.message m;

create or replace view offpath.v_worker with (security_barrier) as
select
    w.id, w.host, w.pid, w.version, w.concurrency, w.tasks, w.queues, w.started_at, w.seen_at,
    w.expires_at, w.gone_at
from offpath.worker w;

create or replace view offpath.v_group with (security_barrier) as
select g.id, g.open, g.failed, g.policy, g.closing, g.done_at from offpath.job_group g;

create or replace view offpath.v_schedule with (security_barrier) as
select s.name, s.created_at, s.updated_at, s.next_at, s.last_at, s.paused, s.last_job
from offpath.schedule s;

create or replace view offpath.v_queue_pause with (security_barrier) as
select q.queue, q.until from offpath.queue_pause q;

create or replace view offpath.v_cursor with (security_barrier) as
select c.router, c.partition, c.position, c.passed, c.held_until, c.ran_at from offpath.cursor c;

create or replace view offpath.v_letter with (security_barrier) as
select l.id, l.router, l.event_id, l.position, l.number, l.created_at, l.resolved_at, l.route,
    l.reason
from offpath.letter l;

create or replace view offpath.v_endpoint with (security_barrier) as
select e.name, e.state, e.created_at, e.failing_since, e.blocked_until, e.failures
from offpath.endpoint e;

create or replace view offpath.v_finding with (security_barrier) as
select f.id, f.name, f.since, f.seen_at, f.accepted_at, f.ended_at from offpath.finding f;

create or replace view offpath.v_migration with (security_barrier) as
select m.number, m.name, m.applied_at from offpath.migration m

-- name: grant_roles
-- What each role may do, and nothing else.
do $$
declare
    home constant text := trim('"' from 'offpath');
    kept constant text := array_to_string(
        array[
            'ledger_%', 'worker', 'claim', 'migration', 'door_task', 'task_default', 'declaration',
            'stat', 'run'
        ], ' '
    );
    worker constant text := quote_ident(home || '_worker');
    enqueuer constant text := quote_ident(home || '_enqueuer');
    reader constant text := quote_ident(home || '_reader');
    operator constant text := quote_ident(home || '_operator');
    scaler constant text := quote_ident(home || '_scaler');
    owner constant text := quote_ident(home || '_owner');
    schema constant text := quote_ident(home);
    it text;
begin
    for it in
        -- nobody has more than is granted here, also where an earlier release granted it
        select format('revoke all on %s in schema %s from %s, %s, %s, %s, %s',
            what, schema, worker, enqueuer, reader, operator, scaler)
        from unnest(array['all tables', 'all sequences', 'all functions']) as what
        union all
        select format('grant usage on schema %s to %s, %s, %s, %s, %s',
            schema, worker, enqueuer, reader, operator, scaler)
        union all
        select format('grant select, insert, update, delete on all tables in schema %s to %s',
            schema, worker)
        union all
        -- behind a row of ledger_trim postings may be removed, which no worker has to do
        select format('revoke insert, update, delete on %s from %s', c.oid::regclass, worker)
        from pg_class c
        join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = home and c.relname in ('migration', 'door_task', 'ledger_trim')
        union all
        select format('grant select on all tables in schema %s to %s', schema, operator)
        union all
        select format('grant insert, update, delete on %s to %s', c.oid::regclass, operator)
        from pg_class c
        join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = home and c.relkind = 'r'
            and c.relname not like all (string_to_array(kept, ' '))
        union all
        -- pruning locks what it removes
        select format('grant update, delete on %s.worker, %s.claim to %s',
            schema, schema, operator)
        union all
        select format('grant usage, select, update on all sequences in schema %s to %s, %s',
            schema, worker, operator)
        union all
        select format('grant execute on all functions in schema %s to %s, %s',
            schema, worker, operator)
        union all
        select format('grant execute on function %s to %s', p.oid::regprocedure, enqueuer)
        from pg_proc p
        join pg_namespace n on n.oid = p.pronamespace
        where n.nspname = home and p.proname = 'enqueue'
        union all
        select format('grant execute on function %s to %s', p.oid::regprocedure, scaler)
        from pg_proc p
        join pg_namespace n on n.oid = p.pronamespace
        where n.nspname = home and p.proname in ('demand', 'lag')
        union all
        select format('grant select on %s to %s', c.oid::regclass, reader)
        from pg_class c
        join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = home and c.relkind = 'v' and c.relname like 'v\_%'
        union all
        -- what the next release adds is the worker's from the start; the others are granted anew
        select format('alter default privileges for role %s in schema %s grant %s to %s',
            owner, schema, what, worker)
        from unnest(array[
            'select, insert, update, delete on tables', 'usage, select, update on sequences',
            'execute on functions'
        ]) as what
    loop
        execute it;
    end loop;
end
$$

-- name: as_owner_online
-- As as_owner, but for the rest of the session.
select pg_catalog.set_config('role', pg_get_userbyid(n.nspowner), false)
from pg_namespace n
where n.nspname = trim('"' from 'offpath')
    and pg_has_role(n.nspowner, 'member')
    and pg_get_userbyid(n.nspowner) <> current_user

-- name: as_owner
-- For the rest of the transaction the schema's owner makes what is made, if the session may act as it.
select pg_catalog.set_config('role', pg_get_userbyid(n.nspowner), true)
from pg_namespace n
where n.nspname = trim('"' from 'offpath')
    and pg_has_role(n.nspowner, 'member')
    and pg_get_userbyid(n.nspowner) <> current_user
