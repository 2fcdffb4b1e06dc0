-- Which tasks a role may enqueue through the SQL door, where it may not enqueue all.

create table offpath.door_task (
    role text collate "C" not null,
    task text collate "C" not null,
    primary key (role, task)
);

-- The door runs with its owner's rights, so who came through it is told by the session.
create function offpath.door_check() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from offpath.door_task d where d.role = session_user)
        and not exists (
            select from offpath.door_task d where d.role = session_user and d.task = new.task
        )
    then
        raise exception 'offpath.enqueue: % may not enqueue the task %', session_user, new.task
            using errcode = 'insufficient_privilege',
                hint = 'the owner of the schema lists its tasks in offpath.door_task';
    end if;
    return new;
end
$$;

-- Only rows that came through the door are looked at: the others name their options.
create trigger door_checked before insert on offpath.job
    for each row when (new.options = '{"of_task":true}')
    execute function offpath.door_check();
