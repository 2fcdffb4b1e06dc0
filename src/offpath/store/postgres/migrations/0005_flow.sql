-- Flow control: limits by key, pauses of queues, fair keys.

alter table offpath.job
    add column limit_key text collate "C",
    -- The limit as the job was enqueued with it, as JSON.
    add column limit_spec text,
    add column fair_key text collate "C",
    -- Since when its limit has let it in.
    add column admitted_at timestamptz,
    -- How often it was held again since nobody took it: it comes behind those it was held for.
    add column sent_back integer not null default 0;

create index job_held on offpath.job (limit_key, queue, sent_back, priority desc, run_at, id)
    where limit_key is not null and state = 'blocked' and reason = 'limit';
create index job_admitted on offpath.job (limit_key, state, admitted_at)
    where limit_key is not null and state in ('ready', 'running');
-- Ready jobs by whose they are and by age, for leases that ask for another order than priority.
create index job_turns on offpath.job (
    (coalesce(fair_key, '')), queue, task, priority desc, enqueued_at, id
) where state = 'ready';

-- One row per key. "admitted" counts its jobs that are ready or running, and those that are not any
-- more but whose nudge nobody has read yet: it is never too low.
create table offpath.limit_key (
    key text collate "C" not null primary key,
    max_running bigint,
    admitted bigint not null default 0 constraint limit_key_admitted check (admitted >= 0),
    closed_until timestamptz,
    rate_next timestamptz,
    checked_at timestamptz,
    turn_at timestamptz,
    paused boolean not null default false,
    -- Whether it had held jobs when it was last looked at.
    waiting boolean not null default false,
    rate text,
    rate_state text
)
with (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

create index limit_key_waiting on offpath.limit_key (turn_at nulls first, key) where waiting;

-- What changed about a key since its row was last written: jobs were held, jobs gave their room back
-- ("freed"), its limit was said anew ("spec"). Only added to here, so that nobody who enqueues or
-- ends a job ever waits for the key.
create table offpath.limit_nudge (
    id bigint generated always as identity primary key,
    freed integer not null default 0,
    key text collate "C" not null,
    spec text
)
with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

create index limit_nudge_key on offpath.limit_nudge (key, id);

create table offpath.queue_pause (
    queue text not null primary key,
    until timestamptz
);

-- Keeps limits whoever moves a job: one that becomes ready without being admitted is held, and one
-- that is ready or running no more gives its room back.
create function offpath.limit_job() returns trigger
language plpgsql volatile
as $$
declare
    was_in boolean := false;
    says text;
    said text := coalesce(current_setting('offpath_store.nudged', true), '');
begin
    if current_setting('offpath_store.admitting', true) = 'on' then
        return null;
    end if;
    if tg_op = 'UPDATE' then
        if old.limit_key is not null and old.state in ('ready', 'running') then
            was_in := old.limit_key = new.limit_key;
            if new.state not in ('ready', 'running') or was_in is not true then
                insert into offpath.limit_nudge (key, freed) values (old.limit_key, 1);
            end if;
        end if;
        if new.limit_key is null
            or (new.state in ('ready', 'running') and was_in)
            or not (new.state = 'ready' or (new.state = 'blocked' and new.reason = 'limit'))
        then
            return null;
        end if;
    end if;
    if new.state = 'ready' then
        perform set_config('offpath_store.admitting', 'on', true);
        update offpath.job
        set state = 'blocked', reason = 'limit', blocked_until = deadline
        where id = new.id;
        perform set_config('offpath_store.admitting', 'off', true);
    end if;
    -- one nudge of a kind suffices for a transaction
    says := E'\x01' || new.limit_key || E'\x02';
    if position(says || coalesce(new.limit_spec, '') || E'\x01' in said) > 0 then
        return null;
    end if;
    insert into offpath.limit_nudge (key, spec) values (new.limit_key, new.limit_spec);
    if position(says in said) > 0 or length(said) > 4000 then
        said := '';
    end if;
    perform set_config(
        'offpath_store.nudged', said || says || coalesce(new.limit_spec, '') || E'\x01', true
    );
    return null;
end
$$;

create trigger limit_new after insert on offpath.job
    for each row when (new.limit_key is not null)
    execute function offpath.limit_job();

create trigger limit_change after update of state on offpath.job
    for each row when (
        (new.limit_key is not null or old.limit_key is not null)
        and not (old.state = 'ready' and new.state = 'running')
        and (
            old.state is distinct from new.state
            or old.reason is distinct from new.reason
            or old.limit_spec is distinct from new.limit_spec
        )
    )
    execute function offpath.limit_job();
