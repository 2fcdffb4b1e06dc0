-- The place of a router's cursor in a table of the user's own.

alter table offpath_cursor add column mark text;
