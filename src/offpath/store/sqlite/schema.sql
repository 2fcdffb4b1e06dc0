-- name: has_record
-- Whether anything was ever migrated here.
select 1 from sqlite_schema where type = 'table' and name = 'offpath_migration'

-- name: make_record
-- The record of applied steps.
create table if not exists offpath_migration (
    number integer primary key,
    name text not null,
    checksum text not null,
    applied_at integer not null
) strict

-- name: applied
-- The applied steps.
select number, name, checksum, applied_at from offpath_migration order by number

-- name: record
-- Notes an applied step.
insert into offpath_migration (number, name, checksum, applied_at)
values (:number, :name, :checksum, :applied_at)
