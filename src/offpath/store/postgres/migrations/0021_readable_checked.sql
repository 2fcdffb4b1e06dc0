-- All rows keep to the rules, those that were being written while these were put in force too.

select offpath.park_unreadable();

alter table offpath.job validate constraint job_readable;
alter table offpath.failure validate constraint failure_readable;
alter table offpath.worker validate constraint worker_readable;
alter table offpath.claim validate constraint claim_readable;
alter table offpath.message validate constraint message_readable;
alter table offpath.log validate constraint log_readable;
alter table offpath.router validate constraint router_readable;
alter table offpath.cursor validate constraint cursor_readable;
alter table offpath.attempt validate constraint attempt_readable;
alter table offpath.letter validate constraint letter_readable;
alter table offpath.endpoint validate constraint endpoint_readable;
alter table offpath.schedule validate constraint schedule_readable;
alter table offpath.occurrence validate constraint occurrence_readable;
alter table offpath.job_group validate constraint job_group_readable;
alter table offpath.job_gate validate constraint job_gate_readable;
alter table offpath.signal validate constraint signal_readable;
alter table offpath.limit_key validate constraint limit_key_readable;
alter table offpath.queue_pause validate constraint queue_pause_readable;
alter table offpath.finding validate constraint finding_readable;
