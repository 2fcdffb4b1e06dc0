-- name: torn_groups
-- Groups whose count of open jobs is not that of their members: to be shown, never expected.
with counted as (
    select g.id, g.open, (
        select count(*) from offpath_job as j
        where j.group_id = g.id and j.group_id <> j.id
            and j.state in ('blocked', 'scheduled', 'ready', 'running')
    ) + (
        select count(*) from offpath_job as j
        where j.id = g.id and j.group_id = j.id
            and j.state in ('blocked', 'scheduled', 'ready', 'running')
    ) as live
    from (select id, open from offpath_group limit :most) as g
)
select id, 'counts ' || open || ' open jobs, has ' || live
from counted
where open <> live
limit 10

-- name: unheld
-- Running jobs whose worker has no row or is gone: the next rescue takes them.
select j.id, 'held by ' || j.worker
from offpath_job as j
where j.state = 'running'
    and not exists (select 1 from offpath_worker as w where w.id = j.worker and w.gone_at is null)
limit 10

-- name: odd_rows
-- Jobs of which one field contradicts another, or does not read: the constraints forbid most of
-- them, but not every program honours those. Looked for among the newest.
with recent as (
    select id, state, worker, finished_at, attempt, deliveries, losses,
        options, dependents, tags, progress, enqueued_at, run_at, deadline, started_at, expires_at
    from offpath_job
    order by seq desc
    limit :most
),
judged as (
    select id, case
        when state not in (
            'blocked', 'scheduled', 'ready', 'running', 'succeeded', 'dead', 'cancelled'
        ) then 'unknown state'
        when state = 'running' and worker is null then 'running without a worker'
        when state <> 'running' and worker is not null then 'held though it does not run'
        when (state in ('succeeded', 'dead', 'cancelled')) <> (finished_at is not null)
            then 'ended without a time, or a time without an end'
        when attempt < 1 or deliveries < 0 or losses < 0 then 'a count below its least'
        when json_valid(options) = 0 then 'options that are not JSON'
        -- Older versions call null invalid.
        when tags <> '' and json_valid(tags) = 0 then 'tags that are not JSON'
        when dependents <> '' and json_valid(dependents) = 0 then 'dependents that are not JSON'
        when progress is not null and json_valid(progress) = 0 then 'progress that is not JSON'
        when max(
            abs(max(enqueued_at, -9e18)), abs(max(run_at, -9e18)), abs(max(coalesce(deadline, 0), -9e18)),
            abs(max(coalesce(started_at, 0), -9e18)), abs(max(coalesce(finished_at, 0), -9e18)),
            abs(max(coalesce(expires_at, 0), -9e18))
        ) > 253402300799999999 then 'a time that cannot be read'
    end as fault
    from recent
),
odd_gates as (
    select id
    from (select * from offpath_job_gate order by id desc limit :most)
    where
        state not in ('open', 'fired', 'unsatisfiable', 'timed_out')
        or counting not in ('succeeded', 'settled')
    limit 10
),
odd_groups as (
    select id
    from (select * from offpath_group order by id desc limit :most)
    where policy not in ('settle_all', 'fail_fast')
    limit 10
),
odd_jobs as (
    select id, fault from judged where fault is not null limit 10
),
found as (
    select id as place, fault from odd_jobs
    union all
    select 'gate ' || id, 'unknown state, or way of counting' from odd_gates
    union all
    select 'group ' || id, 'unknown policy' from odd_groups
)
select place, fault from found

-- name: journal_now
-- How the file is journalled; everything here relies on the write-ahead log.
select journal_mode from pragma_journal_mode

-- name: counters_behind
-- Whether the log's counter has yet to give what rows have, or what a router has passed: an event
-- would be skipped. (The other positions have no counter; theirs is the largest row.)
select 'log.position', 'has given ' || given || ', rows or routers went to ' || most
from (
    select
        coalesce((select seq from sqlite_sequence where name = 'offpath_log'), 0) as given,
        max(
            coalesce((select max(position) from offpath_log), 0),
            coalesce((select max(position) from offpath_cursor), 0)
        ) as most
)
where given < most

-- name: ledger_odd
-- Of the accounts that moved last and the newest postings, what no trigger would have let pass: a
-- balance that is not its last link's, entries that do not sum to zero.
with recent (id, account, number, amount) as (
    select id, account, number, amount from offpath_ledger_link order by id desc limit :most
),
touched (id) as (select distinct account from recent),
sealed (seq) as (select distinct id >> 16 from recent where (id & 65535) = 0),
judged (id, fault) as (
    select account.id, case
        when link.id is null then 'has no link ' || account.number
        when
            link.balance <> account.balance or link.hash <> account.head
            or link.raised <> account.raised
            then 'is not as its last link says'
        when account.guarded and account.balance < 0 then 'is below zero'
    end
    from touched
    cross join offpath_ledger_account as account on account.id = touched.id
    left join offpath_ledger_link as link
        on link.account = account.id and link.number = account.number
    union all
    select touched.id, 'has links and no balance'
    from touched
    where not exists (
        select 1 from offpath_ledger_account as account where account.id = touched.id
    )
    union all
    select coalesce(posting.id, 'posting ' || sealed.seq), case
        when posting.id is null then 'has links and no row'
        else (
            select 'does not sum to zero'
            from offpath_ledger_link as link
            left join offpath_ledger_account as account on account.id = link.account
            where link.id between sealed.seq * 65536 and sealed.seq * 65536 + 65535
            group by account.currency
            having
                sum(link.amount & 4294967295) & 4294967295 <> 0
                or sum(link.amount >> 32) + (sum(link.amount & 4294967295) >> 32) <> 0
        )
    end
    from sealed
    left join offpath_ledger_posting as posting on posting.seq = sealed.seq
)
select id, fault from judged where fault is not null limit 10
