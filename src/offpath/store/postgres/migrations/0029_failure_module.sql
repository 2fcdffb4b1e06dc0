-- The module of a failed attempt's exception class; null where none was raised.

alter table offpath.failure add column module text;
