-- name: has_table_postgres
-- One row if a table of this name is on the search path.
select 1 where to_regclass(:name) is not null

-- name: has_table_sqlite
-- One row if there is a table of this name.
select 1 from sqlite_master where type = 'table' and name = :name

-- name: set_path
-- The schema in which the tables of others are looked for, until the connection is closed.
select set_config('search_path', :path, false)
