-- Dead messages in the order of their writing, which is that of their rows, for lists of people.
create index offpath_message_dead_place on offpath_message (state) where state = 'dead';
