-- name: torn_groups
-- Groups whose count of open jobs is not that of their members: to be shown, never expected.
select g.id, g.open, (
    select count(*) from offpath_job as j
    where (j.group_id = g.id or j.id = g.id)
        and j.state in ('blocked', 'scheduled', 'ready', 'running')
) as live
from offpath_group as g
where g.open <> (
    select count(*) from offpath_job as j
    where (j.group_id = g.id or j.id = g.id)
        and j.state in ('blocked', 'scheduled', 'ready', 'running')
)
limit 10

-- name: unheld
-- Running jobs whose worker has no row: the next rescue takes them.
select j.id
from offpath_job as j
where j.state = 'running'
    and not exists (select 1 from offpath_worker as w where w.id = j.worker)
limit 10

-- name: journal_now
-- How the file is journalled; everything here relies on the write-ahead log.
select journal_mode from pragma_journal_mode
