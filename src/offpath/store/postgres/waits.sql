-- name: forget_undo
-- What these jobs did is not to be undone.
with gone as (
    delete from offpath.step s
    where s.job = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
        and s.kind = 'undo'
)
update offpath.job j
set has_undo = false
where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))

-- name: found_sleeper
-- This signal has woken somebody.
update offpath.signal s set missed = false where s.id = :id::text::uuid

-- name: catch_signals
-- Those of these jobs whose signal is there already do not wait for it.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
update offpath.job j
set state = 'ready',
    reason = null,
    run_at = (select clock.now from clock),
    blocked_until = null,
    unique_held = case
        when j.unique_key is null then false
        else offpath.may_hold(
            j.id, j.unique_key, j.unique_states, j.unique_until, 'queued',
            (select clock.now from clock)
        )
    end
where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
    and j.state = 'blocked'
    and j.reason = 'signal'
    and exists (
        select
        from offpath.signal s
        where s.target = j.wait_target
            and s.event = j.wait_event
            and s.taken_at is null
            and s.expires_at > (select clock.now from clock)
    )
returning j.id::text, offpath.micros(j.run_at)
