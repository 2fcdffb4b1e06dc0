-- name: make_limits
-- What the last enqueue of a key says holds.
insert into offpath_limit (key, max_running, rate, forget_at)
select value ->> 0, value ->> 1, value ->> 2, :forget_at from json_each(:specs)
where true
on conflict (key) do update set max_running = excluded.max_running, rate = excluded.rate
where max_running is not excluded.max_running or rate is not excluded.rate

-- name: make_lines
-- Lines of jobs that have several limits. To a release that knows no lines each is a key that is paused.
insert into offpath_limit (key, parts, paused, forget_at)
select value, 1, 1, :forget_at from json_each(:lines)
where true
on conflict (key) do nothing

-- name: make_parts
-- The limits of lines, and what a job takes of each.
insert into offpath_limit_part (key, line, cost)
select value ->> 0, value ->> 1, value ->> 2 from json_each(:parts)
where true
on conflict (key, line) do nothing

-- name: held_keys
-- Which keys have jobs that wait to be admitted: one probe each, however many there are. (The
-- second column of the order keeps the planner on the index of the held ones.)
with recursive line (key) as (
    /* part: held_limits */
)
select key from line where key is not null

-- name: admission_idle
-- One row where a pass of admission would do nothing: each key with held jobs is full and (looked
-- at with `counting`) counted rightly, and what it let in was not left by all. Anything else, a
-- pause for one, is looked at by the pass itself.
with recursive line (key) as (
    /* part: held_limits */
),
busy (key, jobs) as materialized (
    select limit_key, count(*) from offpath_job
    where state = 'running' and +limit_key is not null
    group by +limit_key
)
select 1
where
    not exists (select 1 from offpath_queue_pause)
    and not exists (
        select 1
        from line
        cross join offpath_limit as spec on spec.key = line.key
        where
            spec.parts = 0 and (
                spec.max_running is null
                or spec.admitted + spec.shared < spec.max_running
                or spec.closed_until > :now
            )
            or spec.parts > 0 and not exists (
                select 1
                from offpath_limit_part as part
                join offpath_limit as one on one.key = part.key
                where
                    part.line = line.key
                    and one.max_running < one.admitted + one.shared + part.cost
            )
            or exists (
                select 1 from offpath_job as left_over
                where
                    left_over.state = 'ready' and left_over.limit_key is not null
                    and left_over.limit_key = line.key and left_over.changed_at <= :before
            )
            or :counting and spec.parts > 0 and exists (
                -- of any line, since another one may have what these share
                select 1
                from offpath_job as left_over
                cross join offpath_limit_part as part on part.line = left_over.limit_key
                where
                    left_over.state = 'ready' and left_over.limit_key is not null
                    and left_over.changed_at <= :before
            )
            or :counting and spec.admitted > coalesce(
                (select busy.jobs from busy where busy.key = line.key), 0
            ) + (
                select count(*) from offpath_job as job
                where
                    job.state = 'ready' and job.limit_key is not null
                    and job.limit_key = line.key
            )
    )

-- name: held_rooms
-- In which queues these keys have held jobs, and the lines that share a limit with them; whether
-- the queue is paused and until when, and what is known of the key.
with recursive wanted (key) as (
    select value from json_each(:keys)
    union
    select part.line
    from json_each(:keys) as given
    cross join offpath_limit_part as part on part.key = given.value
),
lane (key, queue) as (
    select
        wanted.key,
        (
            select job.queue from offpath_job as job
            where
                job.state = 'blocked' and job.reason = 'limit' and job.limit_key = wanted.key
            order by job.queue limit 1
        )
    from wanted
    union all
    select
        lane.key,
        (
            select job.queue from offpath_job as job
            where
                job.state = 'blocked' and job.reason = 'limit' and job.limit_key = lane.key
                and job.queue > lane.queue
            order by job.queue limit 1
        )
    from lane where lane.queue is not null
)
select
    lane.queue, pause.name is not null, pause.until,
    spec.key, spec.max_running, spec.rate, spec.rate_state, spec.admitted + spec.shared,
    spec.closed_until, spec.paused, spec.turn, spec.parts
from lane
cross join offpath_limit as spec on spec.key = lane.key
left join offpath_queue_pause as pause
    on pause.name = lane.queue and (pause.until is null or pause.until > :now)
where lane.queue is not null

-- name: part_rooms
-- What is known of some limits that lines have.
select
    spec.key, spec.max_running, spec.rate, spec.rate_state, spec.admitted + spec.shared,
    spec.closed_until, spec.paused, spec.turn, spec.parts
from offpath_limit as spec
where spec.key in (select value from json_each(:keys))

-- name: lines_of
-- All lines of some limits, those without held jobs too.
select distinct part.line
from json_each(:keys) as wanted
cross join offpath_limit_part as part on part.key = wanted.value

-- name: recount_shared
-- What the lines of some limits take of them, by the counts of the lines.
update offpath_limit set shared = coalesce((
    select sum(part.cost * line.admitted)
    from offpath_limit_part as part
    cross join offpath_limit as line on line.key = part.line
    where part.key = offpath_limit.key
), 0)
where key in (select value from json_each(:keys))

-- name: pick_held
-- The first held jobs of some keys and queues.
select
    lane.value ->> 0, -coalesce(job.turn, job.priority), coalesce(job.turn_at, job.run_at),
    job.id, job.seq
from json_each(:lanes) as lane
cross join offpath_job as job
where
    job.seq in (
        select best.seq from offpath_job as best
        where
            best.state = 'blocked' and best.reason = 'limit'
            and best.limit_key = lane.value ->> 0
            and best.queue = lane.value ->> 1
        order by coalesce(best.turn, best.priority) desc, coalesce(best.turn_at, best.run_at), best.id
        limit :limit
    )

-- name: held_last
-- The last held job of some keys and queues: its priority and its time.
select
    lane.value ->> 0, coalesce(job.turn, job.priority), coalesce(job.turn_at, job.run_at)
from json_each(:lanes) as lane
cross join offpath_job as job
where
    job.seq in (
        select last.seq from offpath_job as last
        where
            last.state = 'blocked' and last.reason = 'limit'
            and last.limit_key = lane.value ->> 0
            and last.queue = lane.value ->> 1
        order by coalesce(last.turn, last.priority), coalesce(last.turn_at, last.run_at) desc,
            last.id desc
        limit 1
    )

-- name: admit_jobs
-- Held jobs become ready; the count follows by itself.
update offpath_job set
    state = 'ready',
    reason = null,
    changed_at = :now,
    blocked_until = null,
    unique_slot = case
        when unique_key is null then null
        when not instr(unique_states, 'scheduled,ready') then null
        /* part: kept_key */
    end
where seq in (select value from json_each(:jobs))

-- name: save_limits
-- What the rates of some keys remember, and whose turn is over.
update offpath_limit set rate_state = new.value ->> 1, turn = new.value ->> 2
from json_each(:keys) as new
where offpath_limit.key = new.value ->> 0

-- name: untaken_jobs
-- Admitted jobs of some keys that nobody took since a time, the longest waiting first.
select job.limit_key, job.seq
from json_each(:keys) as wanted
cross join offpath_job as job
where
    job.seq in (
        select each.seq from offpath_job as each
        where
            each.state = 'ready' and each.limit_key is not null
            and each.limit_key = wanted.value and each.changed_at <= :before
        order by each.changed_at
        limit :limit
    )

-- name: hold_untaken
-- Admitted jobs are held again, behind a place.
update offpath_job set
    state = 'blocked',
    reason = 'limit',
    changed_at = :now,
    blocked_until = deadline,
    turn = min(priority, new.value ->> 1),
    turn_at = max(run_at, new.value ->> 2)
from json_each(:jobs) as new
where offpath_job.seq = new.value ->> 0

-- name: hold_closed
-- Ready jobs of keys that are closed are held again.
update offpath_job set
    state = 'blocked',
    reason = 'limit',
    changed_at = :now,
    blocked_until = deadline
where
    limit_key in (
        select shut.key from offpath_limit as shut
        where
            shut.key in (select value from json_each(:keys))
            and (shut.paused = 1 or shut.closed_until > :now)
        union all
        select part.line
        from offpath_limit as shut
        cross join offpath_limit_part as part on part.key = shut.key
        where
            shut.key in (select value from json_each(:keys))
            and (shut.paused = 1 or shut.closed_until > :now)
    )
    and limit_key is not null and state = 'ready'
returning id

-- name: recount_limits
-- Counts that are too high are set right.
update offpath_limit set admitted = (new.value ->> 1) + (
    select count(*) from offpath_job as job
    where
        job.state = 'ready' and job.limit_key is not null and job.limit_key = offpath_limit.key
)
from json_each(:keys) as new
where
    offpath_limit.key = new.value ->> 0
    and admitted > (new.value ->> 1) + (
        select count(*) from offpath_job as job
        where
            job.state = 'ready' and job.limit_key is not null
            and job.limit_key = offpath_limit.key
    )
returning key, admitted + shared

-- name: running_by_limit
-- Running jobs by key: a walk of the running ones, which are few. `+` keeps the planner from the
-- index of all jobs with a key, ended ones included.
select limit_key, count(*) from offpath_job
where state = 'running' and +limit_key is not null
group by +limit_key

-- name: close_limits
-- An earlier end never shortens a later one.
insert into offpath_limit (key, closed_until, paused, forget_at)
values (:key, :until, :paused, :forget_at)
on conflict (key) do update set
    closed_until = coalesce(max(closed_until, excluded.closed_until), closed_until,
        excluded.closed_until),
    paused = max(paused, excluded.paused)

-- name: closed_limits
-- Which of these keys admit nothing now.
select key from offpath_limit
where key in (select value from json_each(:keys)) and (paused = 1 or closed_until > :now)

-- name: open_limit
-- Ends a pause and a cool-down.
update offpath_limit set paused = 0, closed_until = null
where key = :key and (paused = 1 or closed_until > :now)
returning key

-- name: idle_limits
-- Keys of which it is time to look whether they are still needed, and whether a job needs them.
select
    key, rate, rate_state, parts = 0 and paused = 1 or closed_until > :now
    or exists (select 1 from offpath_job as job where job.limit_key = offpath_limit.key)
    or exists (select 1 from offpath_limit_part as part where part.key = offpath_limit.key)
from offpath_limit
where forget_at <= :now
order by forget_at
limit :limit

-- name: keep_limits
-- Looks again later.
update offpath_limit set forget_at = :forget_at
where key in (select value from json_each(:keys))

-- name: drop_limits
delete from offpath_limit where key in (select value from json_each(:keys))
