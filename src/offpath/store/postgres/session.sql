-- name: begin
begin isolation level read committed read write

-- name: commit
commit

-- name: begin_snapshot
begin isolation level repeatable read read only

-- name: savepoint
-- In a caller's transaction: where it is taken back to when it does not go.
savepoint offpath_effects

-- name: rollback_to_savepoint
rollback to savepoint offpath_effects

-- name: release_savepoint
release savepoint offpath_effects

-- name: borrow_path
-- In a caller's transaction: names are the server's own from here. Answers the caller's path.
select
    pg_catalog.current_setting('search_path'),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)

-- name: return_path
-- The path of the caller's transaction is as it was.
select pg_catalog.set_config('search_path', :path::pg_catalog.text, true)

-- name: pin
-- Only for this transaction: names are the server's own, whatever lies in the path of the session,
-- times are read in UTC, nothing takes for ever, and plans do not depend on statistics. A table just
-- filled has none, and the planner then takes whole-table plans.
select
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
    pg_catalog.set_config('TimeZone', 'UTC', true),
    pg_catalog.set_config('statement_timeout', '30s', true),
    pg_catalog.set_config('enable_seqscan', 'off', true),
    pg_catalog.set_config('enable_bitmapscan', 'off', true),
    pg_catalog.set_config('enable_hashjoin', 'off', true),
    pg_catalog.set_config('enable_mergejoin', 'off', true),
    pg_catalog.set_config('enable_material', 'off', true),
    pg_catalog.set_config('jit', 'off', true)

-- name: limit
-- Only for this transaction: names are the server's own, times are read in UTC and nothing takes for
-- ever.
select
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
    pg_catalog.set_config('TimeZone', 'UTC', true),
    pg_catalog.set_config('statement_timeout', '30s', true)

-- name: settle_in
-- As pin, but for a session that is ours alone; and prepared statements are planned once.
select
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false),
    pg_catalog.set_config('TimeZone', 'UTC', false),
    pg_catalog.set_config('statement_timeout', '30s', false),
    pg_catalog.set_config('default_transaction_isolation', 'read committed', false),
    pg_catalog.set_config('default_transaction_read_only', 'off', false),
    pg_catalog.set_config('enable_seqscan', 'off', false),
    pg_catalog.set_config('enable_bitmapscan', 'off', false),
    pg_catalog.set_config('enable_hashjoin', 'off', false),
    pg_catalog.set_config('enable_mergejoin', 'off', false),
    pg_catalog.set_config('enable_material', 'off', false),
    pg_catalog.set_config('jit', 'off', false),
    pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', false)

-- name: settle_in_freely
-- Behind settle_in, for a session of one who looks: it is planned by its values, and a statement
-- that takes longer than somebody waits for a page is ended. What changes rows has its usual time.
select
    pg_catalog.set_config('statement_timeout', '2s', false),
    pg_catalog.set_config('enable_seqscan', 'on', false),
    pg_catalog.set_config('enable_bitmapscan', 'on', false),
    pg_catalog.set_config('enable_hashjoin', 'on', false),
    pg_catalog.set_config('enable_mergejoin', 'on', false),
    pg_catalog.set_config('enable_material', 'on', false),
    pg_catalog.set_config('plan_cache_mode', 'force_custom_plan', false)

-- name: look
-- Behind limit, for one who looks through a pooler: only for this transaction.
select pg_catalog.set_config('statement_timeout', '2s', true)

-- name: unpin
-- In a session of ours: this transaction is planned freely, by its values.
select
    set_config('enable_seqscan', 'on', true),
    set_config('enable_bitmapscan', 'on', true),
    set_config('enable_hashjoin', 'on', true),
    set_config('enable_mergejoin', 'on', true),
    set_config('enable_material', 'on', true),
    set_config('plan_cache_mode', 'force_custom_plan', true)

-- name: ping
-- The store's clock, as JSON.
select to_json(coalesce(:now::text::timestamptz, clock_timestamp()))::text

-- name: tell_the_time
-- Only for this transaction: the time that was given to the store, for triggers.
select set_config('offpath_store.now', :now::text, true)
