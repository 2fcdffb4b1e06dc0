-- The place of a router's cursor in a table of the user's own.

alter table offpath.cursor add column mark text;
