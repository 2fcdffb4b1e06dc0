-- Checkpoints sign the number of the last posting that they cover.

alter table offpath.ledger_checkpoint add column posting bigint;
