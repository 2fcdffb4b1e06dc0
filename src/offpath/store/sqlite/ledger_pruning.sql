-- name: ledger_keys_old
-- Keys from before a time, looked for among the oldest: they are in the order of their commits.
select seq
from (select seq, at from offpath_ledger_key order by seq limit :limit)
where at < :before

-- name: prune_ledger_keys
-- Keys that can be used again.
delete from offpath_ledger_key where seq in (select value from json_each(:seqs)) returning seq

-- name: ledger_attempts_old
-- Attempts from before a time that have another of their subject behind them. Walks past the last
-- ones of subjects that do nothing any more, so it is for a connection that holds up nobody.
select old.seq
from offpath_ledger_attempt as old
where
    old.at < :before
    and exists (
        select 1 from offpath_ledger_attempt as newer
        where
            newer.subject = old.subject and newer.at >= old.at
            and (newer.at > old.at or newer.seq > old.seq)
    )
order by old.seq
limit :limit

-- name: prune_ledger_attempts
-- Attempts that no window reaches.
delete from offpath_ledger_attempt where seq in (select value from json_each(:seqs)) returning seq
