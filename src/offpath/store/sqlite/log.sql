-- name: add_log
-- New events, in the order given. Those whose id is there already are left out.
insert into offpath_log (id, domain, type, stream, key, slot, at, payload, headers)
select
    value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, :now, value ->> 6,
    value ->> 7
from json_each(:batch)
where true
on conflict (id) do nothing
returning id

-- name: log_horizon
-- The last position that was given: whoever writes has the file alone, so all up to it is settled.
select seq from sqlite_sequence where name = 'offpath_log'
