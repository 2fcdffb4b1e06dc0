-- Dead messages in the order of their writing, for lists of people over a large table.
drop index concurrently if exists offpath.message_dead_place;
create index concurrently message_dead_place on offpath.message (position) where state = 'dead';
