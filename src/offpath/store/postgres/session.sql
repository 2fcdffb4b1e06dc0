-- name: begin
begin isolation level read committed read write

-- name: commit
commit

-- name: pin
-- Only for this transaction: times are read in UTC, nothing takes for ever, and plans do not
-- depend on statistics. A table just filled has none, and the planner then takes whole-table plans.
select
    set_config('TimeZone', 'UTC', true),
    set_config('statement_timeout', '30s', true),
    set_config('enable_seqscan', 'off', true),
    set_config('enable_bitmapscan', 'off', true),
    set_config('enable_hashjoin', 'off', true),
    set_config('enable_mergejoin', 'off', true),
    set_config('enable_material', 'off', true),
    set_config('jit', 'off', true)

-- name: pin_relaxed
-- As pin, and the commit does not wait for the disk: for what may be lost without harm.
select
    set_config('TimeZone', 'UTC', true),
    set_config('statement_timeout', '30s', true),
    set_config('enable_seqscan', 'off', true),
    set_config('enable_bitmapscan', 'off', true),
    set_config('enable_hashjoin', 'off', true),
    set_config('enable_mergejoin', 'off', true),
    set_config('enable_material', 'off', true),
    set_config('jit', 'off', true),
    set_config('synchronous_commit', 'off', true)

-- name: limit
-- Only for this transaction: times are read in UTC and nothing takes for ever.
select set_config('TimeZone', 'UTC', true), set_config('statement_timeout', '30s', true)

-- name: ping
-- The store's clock, as JSON.
select to_json(coalesce(:now::text::timestamptz, clock_timestamp()))::text
