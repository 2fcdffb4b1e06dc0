-- name: note_declarations
-- Notes what somebody's code defines, by kind and name; its first time stays.
insert into offpath_declaration as d (kind, name, fingerprint, first_seen, last_seen)
select :kind, row.value ->> 'name', row.value ->> 'fingerprint', :now, :now
from json_each(:batch) as row
where true
on conflict (kind, name, fingerprint) do update
set last_seen = max(d.last_seen, excluded.last_seen)

-- name: overruled_declarations
-- Those of them that are older than another one of that name which was declared lately.
select distinct mine.name
from json_each(:batch) as row
join offpath_declaration as mine
    on mine.kind = :kind
    and mine.name = row.value ->> 'name'
    and mine.fingerprint = row.value ->> 'fingerprint'
join offpath_declaration as other
    on other.kind = mine.kind
    and other.name = mine.name
    and (other.first_seen, other.fingerprint) > (mine.first_seen, mine.fingerprint)
where other.last_seen + :live > :now

-- name: forget_declarations
-- Removes what nobody has declared for long.
delete from offpath_declaration where kind = :kind and last_seen + :keep < :now

-- name: live_declarations
-- What is declared of a kind, by name, the newest first.
select name, fingerprint, first_seen, last_seen
from offpath_declaration
where kind = :kind and last_seen + :live > :now
order by name, first_seen desc, fingerprint desc
limit 10000
