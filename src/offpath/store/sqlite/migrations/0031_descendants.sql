-- Gates that wait for all that the watched jobs led to: these watches are handed on to new jobs.

alter table offpath_gate_watch add column led integer not null default 0
    constraint gate_watch_led_readable check (led between 0 and 1);
