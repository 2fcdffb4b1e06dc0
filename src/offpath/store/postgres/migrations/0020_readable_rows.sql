-- Whoever writes a row by hand is refused what no worker can read.

-- The nearest time that can be read.
create function offpath.readable_time(at timestamptz) returns timestamptz
language sql stable parallel safe
return case
    when at < '0001-01-01 00:00:00+00'::timestamptz then '0001-01-01 00:00:00+00'::timestamptz
    when at >= '10000-01-01 00:00:00+00'::timestamptz then '9999-12-31 23:59:59+00'::timestamptz
    else at
end;

-- Mends the rows that the rules below refuse, so that these can be put in force; an operator may call it
-- where they were lost in a restore. A job or a message that has not ended becomes a dead letter, with
-- what stood there kept: a message at once, a job when it is taken, by the object in "dependents", which
-- no worker can read, for its end concerns its group and its gates.
create function offpath.park_unreadable() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    update offpath.job j
    set dependents = case
            when j.finished_at is not null and jsonb_typeof(j.dependents) = 'array'
                then j.dependents
            when j.finished_at is null then jsonb_build_object('unreadable', jsonb_build_object(
                'enqueued_at', j.enqueued_at, 'run_at', j.run_at, 'deadline', j.deadline,
                'started_at', j.started_at, 'finished_at', j.finished_at, 'expires_at', j.expires_at,
                'unique_until', j.unique_until, 'wait_since', j.wait_since, 'wait_until', j.wait_until,
                'blocked_until', j.blocked_until, 'admitted_at', j.admitted_at, 'tags', j.tags,
                'dependents', j.dependents, 'unique_states', j.unique_states, 'deadline_in', j.deadline_in,
                'gated_delay', j.gated_delay
            ))
        end,
        enqueued_at = offpath.readable_time(j.enqueued_at),
        run_at = case when j.run_at = offpath.readable_time(j.run_at) then j.run_at else now() end,
        deadline = offpath.readable_time(j.deadline),
        started_at = offpath.readable_time(j.started_at),
        finished_at = offpath.readable_time(j.finished_at),
        expires_at = offpath.readable_time(j.expires_at),
        unique_until = offpath.readable_time(j.unique_until),
        wait_since = offpath.readable_time(j.wait_since),
        wait_until = offpath.readable_time(j.wait_until),
        blocked_until = offpath.readable_time(j.blocked_until),
        admitted_at = offpath.readable_time(j.admitted_at),
        tags = case
            when jsonb_typeof(j.tags) = 'array'
                and not jsonb_path_exists(j.tags, '$[*] ? (@.type() != "string")')
                then j.tags
        end,
        unique_states = case
            when jsonb_typeof(j.unique_states) = 'array' then j.unique_states
            when j.unique_states is not null then '["blocked", "queued", "running"]'
        end,
        deadline_in = case when j.deadline_in between 0 and 1e11 then j.deadline_in end,
        gated_delay = case when j.gated_delay between -1e11 and 1e11 then j.gated_delay end,
        attempt = least(j.attempt, 2147483647),
        deliveries = least(j.deliveries, 2147483647),
        losses = least(j.losses, 2147483647),
        redrives = least(j.redrives, 2147483647),
        queue = case when octet_length(j.queue) <= 1000 then j.queue else left(j.queue, 200) end,
        task = case when octet_length(j.task) <= 1000 then j.task else left(j.task, 200) end,
        unique_key = case
            when octet_length(j.unique_key) <= 4000 then j.unique_key else left(j.unique_key, 500)
        end
    where not (
            enqueued_at >= '0001-01-01 00:00:00+00' and enqueued_at < '10000-01-01 00:00:00+00'
            and run_at >= '0001-01-01 00:00:00+00' and run_at < '10000-01-01 00:00:00+00'
            and deadline >= '0001-01-01 00:00:00+00' and deadline < '10000-01-01 00:00:00+00'
            and started_at >= '0001-01-01 00:00:00+00' and started_at < '10000-01-01 00:00:00+00'
            and finished_at >= '0001-01-01 00:00:00+00' and finished_at < '10000-01-01 00:00:00+00'
            and expires_at >= '0001-01-01 00:00:00+00' and expires_at < '10000-01-01 00:00:00+00'
            and unique_until >= '0001-01-01 00:00:00+00' and unique_until < '10000-01-01 00:00:00+00'
            and wait_since >= '0001-01-01 00:00:00+00' and wait_since < '10000-01-01 00:00:00+00'
            and wait_until >= '0001-01-01 00:00:00+00' and wait_until < '10000-01-01 00:00:00+00'
            and blocked_until >= '0001-01-01 00:00:00+00' and blocked_until < '10000-01-01 00:00:00+00'
            and admitted_at >= '0001-01-01 00:00:00+00' and admitted_at < '10000-01-01 00:00:00+00'
            and jsonb_typeof(tags) = 'array'
            and not jsonb_path_exists(tags, '$[*] ? (@.type() != "string")')
            and jsonb_typeof(dependents) in ('array', 'object')
            and jsonb_typeof(unique_states) = 'array'
            and deadline_in between 0 and 1e11
            and gated_delay between -1e11 and 1e11
            and attempt < 4611686018427387904
            and deliveries < 4611686018427387904
            and losses < 4611686018427387904
            and redrives < 4611686018427387904
            and octet_length(queue) <= 1000
            and octet_length(task) <= 1000
            and octet_length(unique_key) <= 4000
        );

    update offpath.message m
    set state = case when m.state = 'pending' then 'dead' else m.state end,
        reason = case when m.state = 'pending' then 'unreadable' else m.reason end,
        failure = case
            when m.state = 'pending' or jsonb_typeof(m.failure) <> 'object' then jsonb_build_object(
                'kind', 'unreadable', 'type', 'UnreadableRow', 'at', now(), 'message',
                'its row held what offpath never writes: created_at ' || m.created_at::text
                || ', due_at ' || m.due_at::text
            )
            else m.failure
        end,
        holder = null,
        created_at = offpath.readable_time(m.created_at),
        due_at = offpath.readable_time(m.due_at),
        due_before = null,
        finished_at = case
            when m.state = 'pending' then now() else offpath.readable_time(m.finished_at)
        end,
        expires_at = offpath.readable_time(m.expires_at)
    where not (
            created_at >= '0001-01-01 00:00:00+00' and created_at < '10000-01-01 00:00:00+00'
            and due_at >= '0001-01-01 00:00:00+00' and due_at < '10000-01-01 00:00:00+00'
            and due_before >= '0001-01-01 00:00:00+00' and due_before < '10000-01-01 00:00:00+00'
            and finished_at >= '0001-01-01 00:00:00+00' and finished_at < '10000-01-01 00:00:00+00'
            and expires_at >= '0001-01-01 00:00:00+00' and expires_at < '10000-01-01 00:00:00+00'
            and jsonb_typeof(failure) = 'object'
        );

    update offpath.failure r
    set at = offpath.readable_time(r.at)
    where not (
            at >= '0001-01-01 00:00:00+00' and at < '10000-01-01 00:00:00+00'
        );

    update offpath.worker r
    set started_at = offpath.readable_time(r.started_at),
        seen_at = offpath.readable_time(r.seen_at),
        expires_at = offpath.readable_time(r.expires_at),
        missing_since = offpath.readable_time(r.missing_since),
        gone_at = offpath.readable_time(r.gone_at),
        tasks = case when jsonb_typeof(r.tasks) = 'array' then r.tasks else '[]' end,
        queues = case when jsonb_typeof(r.queues) = 'array' then r.queues else '[]' end
    where not (
            started_at >= '0001-01-01 00:00:00+00' and started_at < '10000-01-01 00:00:00+00'
            and seen_at >= '0001-01-01 00:00:00+00' and seen_at < '10000-01-01 00:00:00+00'
            and expires_at >= '0001-01-01 00:00:00+00' and expires_at < '10000-01-01 00:00:00+00'
            and missing_since >= '0001-01-01 00:00:00+00' and missing_since < '10000-01-01 00:00:00+00'
            and gone_at >= '0001-01-01 00:00:00+00' and gone_at < '10000-01-01 00:00:00+00'
            and jsonb_typeof(tasks) = 'array'
            and jsonb_typeof(queues) = 'array'
        );

    update offpath.claim r
    set free_at = offpath.readable_time(r.free_at)
    where not (
            free_at >= '0001-01-01 00:00:00+00' and free_at < '10000-01-01 00:00:00+00'
        );

    update offpath.log r
    set at = offpath.readable_time(r.at)
    where not (
            at >= '0001-01-01 00:00:00+00' and at < '10000-01-01 00:00:00+00'
        );

    update offpath.router r
    set created_at = offpath.readable_time(r.created_at)
    where not (
            created_at >= '0001-01-01 00:00:00+00' and created_at < '10000-01-01 00:00:00+00'
        );

    update offpath.cursor r
    set held_until = offpath.readable_time(r.held_until),
        ran_at = offpath.readable_time(r.ran_at)
    where not (
            held_until >= '0001-01-01 00:00:00+00' and held_until < '10000-01-01 00:00:00+00'
            and ran_at >= '0001-01-01 00:00:00+00' and ran_at < '10000-01-01 00:00:00+00'
        );

    update offpath.attempt r
    set at = offpath.readable_time(r.at)
    where not (
            at >= '0001-01-01 00:00:00+00' and at < '10000-01-01 00:00:00+00'
        );

    update offpath.letter r
    set created_at = offpath.readable_time(r.created_at),
        resolved_at = offpath.readable_time(r.resolved_at)
    where not (
            created_at >= '0001-01-01 00:00:00+00' and created_at < '10000-01-01 00:00:00+00'
            and resolved_at >= '0001-01-01 00:00:00+00' and resolved_at < '10000-01-01 00:00:00+00'
        );

    update offpath.endpoint r
    set created_at = offpath.readable_time(r.created_at),
        failing_since = offpath.readable_time(r.failing_since),
        blocked_until = offpath.readable_time(r.blocked_until),
        secrets = case when jsonb_typeof(r.secrets) = 'array' then r.secrets else '[]' end,
        topics = case when jsonb_typeof(r.topics) = 'array' then r.topics else '[]' end,
        streams = case when jsonb_typeof(r.streams) = 'array' then r.streams else '[]' end
    where not (
            created_at >= '0001-01-01 00:00:00+00' and created_at < '10000-01-01 00:00:00+00'
            and failing_since >= '0001-01-01 00:00:00+00' and failing_since < '10000-01-01 00:00:00+00'
            and blocked_until >= '0001-01-01 00:00:00+00' and blocked_until < '10000-01-01 00:00:00+00'
            and jsonb_typeof(secrets) = 'array'
            and jsonb_typeof(topics) = 'array'
            and jsonb_typeof(streams) = 'array'
        );

    update offpath.schedule r
    set created_at = offpath.readable_time(r.created_at),
        updated_at = offpath.readable_time(r.updated_at),
        next_at = offpath.readable_time(r.next_at),
        last_at = offpath.readable_time(r.last_at)
    where not (
            created_at >= '0001-01-01 00:00:00+00' and created_at < '10000-01-01 00:00:00+00'
            and updated_at >= '0001-01-01 00:00:00+00' and updated_at < '10000-01-01 00:00:00+00'
            and next_at >= '0001-01-01 00:00:00+00' and next_at < '10000-01-01 00:00:00+00'
            and last_at >= '0001-01-01 00:00:00+00' and last_at < '10000-01-01 00:00:00+00'
        );

    update offpath.job_group r
    set done_at = offpath.readable_time(r.done_at)
    where not (
            done_at >= '0001-01-01 00:00:00+00' and done_at < '10000-01-01 00:00:00+00'
        );

    update offpath.job_gate r
    set deadline = offpath.readable_time(r.deadline)
    where not (
            deadline >= '0001-01-01 00:00:00+00' and deadline < '10000-01-01 00:00:00+00'
        );

    update offpath.signal r
    set sent_at = offpath.readable_time(r.sent_at),
        expires_at = offpath.readable_time(r.expires_at),
        taken_at = offpath.readable_time(r.taken_at)
    where not (
            sent_at >= '0001-01-01 00:00:00+00' and sent_at < '10000-01-01 00:00:00+00'
            and expires_at >= '0001-01-01 00:00:00+00' and expires_at < '10000-01-01 00:00:00+00'
            and taken_at >= '0001-01-01 00:00:00+00' and taken_at < '10000-01-01 00:00:00+00'
        );

    update offpath.limit_key r
    set closed_until = offpath.readable_time(r.closed_until),
        rate_next = offpath.readable_time(r.rate_next),
        checked_at = offpath.readable_time(r.checked_at),
        turn_at = offpath.readable_time(r.turn_at)
    where not (
            closed_until >= '0001-01-01 00:00:00+00' and closed_until < '10000-01-01 00:00:00+00'
            and rate_next >= '0001-01-01 00:00:00+00' and rate_next < '10000-01-01 00:00:00+00'
            and checked_at >= '0001-01-01 00:00:00+00' and checked_at < '10000-01-01 00:00:00+00'
            and turn_at >= '0001-01-01 00:00:00+00' and turn_at < '10000-01-01 00:00:00+00'
        );

    update offpath.queue_pause r
    set until = offpath.readable_time(r.until)
    where not (
            until >= '0001-01-01 00:00:00+00' and until < '10000-01-01 00:00:00+00'
        );

    update offpath.finding r
    set since = offpath.readable_time(r.since),
        seen_at = offpath.readable_time(r.seen_at),
        accepted_at = offpath.readable_time(r.accepted_at),
        ended_at = offpath.readable_time(r.ended_at)
    where not (
            since >= '0001-01-01 00:00:00+00' and since < '10000-01-01 00:00:00+00'
            and seen_at >= '0001-01-01 00:00:00+00' and seen_at < '10000-01-01 00:00:00+00'
            and accepted_at >= '0001-01-01 00:00:00+00' and accepted_at < '10000-01-01 00:00:00+00'
            and ended_at >= '0001-01-01 00:00:00+00' and ended_at < '10000-01-01 00:00:00+00'
        );

    delete from offpath.occurrence
    where not (
            at >= '0001-01-01 00:00:00+00' and at < '10000-01-01 00:00:00+00'
            and made_at >= '0001-01-01 00:00:00+00' and made_at < '10000-01-01 00:00:00+00'
        );
end
$$;

select offpath.park_unreadable();

-- Not valid: whoever writes is not held up by a look at all rows, which the next step takes.
alter table offpath.job add constraint job_readable check (
        enqueued_at >= '0001-01-01 00:00:00+00' and enqueued_at < '10000-01-01 00:00:00+00'
        and run_at >= '0001-01-01 00:00:00+00' and run_at < '10000-01-01 00:00:00+00'
        and deadline >= '0001-01-01 00:00:00+00' and deadline < '10000-01-01 00:00:00+00'
        and started_at >= '0001-01-01 00:00:00+00' and started_at < '10000-01-01 00:00:00+00'
        and finished_at >= '0001-01-01 00:00:00+00' and finished_at < '10000-01-01 00:00:00+00'
        and expires_at >= '0001-01-01 00:00:00+00' and expires_at < '10000-01-01 00:00:00+00'
        and unique_until >= '0001-01-01 00:00:00+00' and unique_until < '10000-01-01 00:00:00+00'
        and wait_since >= '0001-01-01 00:00:00+00' and wait_since < '10000-01-01 00:00:00+00'
        and wait_until >= '0001-01-01 00:00:00+00' and wait_until < '10000-01-01 00:00:00+00'
        and blocked_until >= '0001-01-01 00:00:00+00' and blocked_until < '10000-01-01 00:00:00+00'
        and admitted_at >= '0001-01-01 00:00:00+00' and admitted_at < '10000-01-01 00:00:00+00'
        and jsonb_typeof(tags) = 'array'
        and not jsonb_path_exists(tags, '$[*] ? (@.type() != "string")')
        and jsonb_typeof(dependents) in ('array', 'object')
        and jsonb_typeof(unique_states) = 'array'
        and deadline_in between 0 and 1e11
        and gated_delay between -1e11 and 1e11
        and attempt < 4611686018427387904
        and deliveries < 4611686018427387904
        and losses < 4611686018427387904
        and redrives < 4611686018427387904
        and octet_length(queue) <= 1000
        and octet_length(task) <= 1000
        and octet_length(unique_key) <= 4000
    ) not valid;

alter table offpath.failure add constraint failure_readable check (
        at >= '0001-01-01 00:00:00+00' and at < '10000-01-01 00:00:00+00'
    ) not valid;

alter table offpath.worker add constraint worker_readable check (
        started_at >= '0001-01-01 00:00:00+00' and started_at < '10000-01-01 00:00:00+00'
        and seen_at >= '0001-01-01 00:00:00+00' and seen_at < '10000-01-01 00:00:00+00'
        and expires_at >= '0001-01-01 00:00:00+00' and expires_at < '10000-01-01 00:00:00+00'
        and missing_since >= '0001-01-01 00:00:00+00' and missing_since < '10000-01-01 00:00:00+00'
        and gone_at >= '0001-01-01 00:00:00+00' and gone_at < '10000-01-01 00:00:00+00'
        and jsonb_typeof(tasks) = 'array'
        and jsonb_typeof(queues) = 'array'
    ) not valid;

alter table offpath.claim add constraint claim_readable check (
        free_at >= '0001-01-01 00:00:00+00' and free_at < '10000-01-01 00:00:00+00'
    ) not valid;

alter table offpath.message add constraint message_readable check (
        created_at >= '0001-01-01 00:00:00+00' and created_at < '10000-01-01 00:00:00+00'
        and due_at >= '0001-01-01 00:00:00+00' and due_at < '10000-01-01 00:00:00+00'
        and due_before >= '0001-01-01 00:00:00+00' and due_before < '10000-01-01 00:00:00+00'
        and finished_at >= '0001-01-01 00:00:00+00' and finished_at < '10000-01-01 00:00:00+00'
        and expires_at >= '0001-01-01 00:00:00+00' and expires_at < '10000-01-01 00:00:00+00'
        and jsonb_typeof(failure) = 'object'
    ) not valid;

alter table offpath.log add constraint log_readable check (
        at >= '0001-01-01 00:00:00+00' and at < '10000-01-01 00:00:00+00'
    ) not valid;

alter table offpath.router add constraint router_readable check (
        created_at >= '0001-01-01 00:00:00+00' and created_at < '10000-01-01 00:00:00+00'
    ) not valid;

alter table offpath.cursor add constraint cursor_readable check (
        held_until >= '0001-01-01 00:00:00+00' and held_until < '10000-01-01 00:00:00+00'
        and ran_at >= '0001-01-01 00:00:00+00' and ran_at < '10000-01-01 00:00:00+00'
    ) not valid;

alter table offpath.attempt add constraint attempt_readable check (
        at >= '0001-01-01 00:00:00+00' and at < '10000-01-01 00:00:00+00'
    ) not valid;

alter table offpath.letter add constraint letter_readable check (
        created_at >= '0001-01-01 00:00:00+00' and created_at < '10000-01-01 00:00:00+00'
        and resolved_at >= '0001-01-01 00:00:00+00' and resolved_at < '10000-01-01 00:00:00+00'
    ) not valid;

alter table offpath.endpoint add constraint endpoint_readable check (
        created_at >= '0001-01-01 00:00:00+00' and created_at < '10000-01-01 00:00:00+00'
        and failing_since >= '0001-01-01 00:00:00+00' and failing_since < '10000-01-01 00:00:00+00'
        and blocked_until >= '0001-01-01 00:00:00+00' and blocked_until < '10000-01-01 00:00:00+00'
        and jsonb_typeof(secrets) = 'array'
        and jsonb_typeof(topics) = 'array'
        and jsonb_typeof(streams) = 'array'
    ) not valid;

alter table offpath.schedule add constraint schedule_readable check (
        created_at >= '0001-01-01 00:00:00+00' and created_at < '10000-01-01 00:00:00+00'
        and updated_at >= '0001-01-01 00:00:00+00' and updated_at < '10000-01-01 00:00:00+00'
        and next_at >= '0001-01-01 00:00:00+00' and next_at < '10000-01-01 00:00:00+00'
        and last_at >= '0001-01-01 00:00:00+00' and last_at < '10000-01-01 00:00:00+00'
    ) not valid;

alter table offpath.occurrence add constraint occurrence_readable check (
        at >= '0001-01-01 00:00:00+00' and at < '10000-01-01 00:00:00+00'
        and made_at >= '0001-01-01 00:00:00+00' and made_at < '10000-01-01 00:00:00+00'
    ) not valid;

alter table offpath.job_group add constraint job_group_readable check (
        done_at >= '0001-01-01 00:00:00+00' and done_at < '10000-01-01 00:00:00+00'
    ) not valid;

alter table offpath.job_gate add constraint job_gate_readable check (
        deadline >= '0001-01-01 00:00:00+00' and deadline < '10000-01-01 00:00:00+00'
    ) not valid;

alter table offpath.signal add constraint signal_readable check (
        sent_at >= '0001-01-01 00:00:00+00' and sent_at < '10000-01-01 00:00:00+00'
        and expires_at >= '0001-01-01 00:00:00+00' and expires_at < '10000-01-01 00:00:00+00'
        and taken_at >= '0001-01-01 00:00:00+00' and taken_at < '10000-01-01 00:00:00+00'
    ) not valid;

alter table offpath.limit_key add constraint limit_key_readable check (
        closed_until >= '0001-01-01 00:00:00+00' and closed_until < '10000-01-01 00:00:00+00'
        and rate_next >= '0001-01-01 00:00:00+00' and rate_next < '10000-01-01 00:00:00+00'
        and checked_at >= '0001-01-01 00:00:00+00' and checked_at < '10000-01-01 00:00:00+00'
        and turn_at >= '0001-01-01 00:00:00+00' and turn_at < '10000-01-01 00:00:00+00'
    ) not valid;

alter table offpath.queue_pause add constraint queue_pause_readable check (
        until >= '0001-01-01 00:00:00+00' and until < '10000-01-01 00:00:00+00'
    ) not valid;

alter table offpath.finding add constraint finding_readable check (
        since >= '0001-01-01 00:00:00+00' and since < '10000-01-01 00:00:00+00'
        and seen_at >= '0001-01-01 00:00:00+00' and seen_at < '10000-01-01 00:00:00+00'
        and accepted_at >= '0001-01-01 00:00:00+00' and accepted_at < '10000-01-01 00:00:00+00'
        and ended_at >= '0001-01-01 00:00:00+00' and ended_at < '10000-01-01 00:00:00+00'
    ) not valid;
