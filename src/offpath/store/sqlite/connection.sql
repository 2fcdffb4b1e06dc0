-- name: journal_mode
-- Readers and the writer do not wait for each other.
pragma journal_mode = wal

-- name: synchronous
-- A commit that was answered survives a power cut.
pragma synchronous = full

-- name: synchronous_later
-- The commit is written at once but reaches the disk with the next full one.
pragma synchronous = normal

-- name: no_autocheckpoint
-- One place decides when to move the log into the file (see writer).
pragma wal_autocheckpoint = 0

-- name: no_mmap
-- Memory mapping makes the WAL-reset fault of SQLite before 3.51.3 worse.
pragma mmap_size = 0

-- name: temp_store
-- Sorting and temporary indices need no file.
pragma temp_store = memory

-- name: cache_size
-- Kibibytes: the hot end of the tables.
pragma cache_size = -16000

-- name: query_only
-- A reading connection cannot write, whatever a fault in a statement says.
pragma query_only = on

-- name: begin
-- The write lock at once: upgrading a read is what "database is locked" is made of.
begin immediate

-- name: commit
commit

-- name: savepoint
savepoint offpath_request

-- name: release_savepoint
release savepoint offpath_request

-- name: rollback_to_savepoint
rollback to savepoint offpath_request

-- name: transaction_begun
-- Changes nothing, but is of the kind before which sqlite3 begins a transaction, if it does so at
-- all. Without one, a savepoint would be a transaction of its own, and its release a commit.
update offpath_job set seq = seq where false

-- name: data_version
-- Changes when another connection has committed, never by our own commits.
pragma data_version

-- name: busy_timeout
-- Milliseconds: short, because waiting is done by our own, fairer retry.
pragma busy_timeout = 5

-- name: busy_timeout_checkpoint
-- Milliseconds that a checkpoint may hold up other writers while it waits for a reader.
pragma busy_timeout = 25

-- name: checkpoint
-- Takes the writer lock while it copies, so no commit can come between.
pragma wal_checkpoint (truncate)

-- name: databases
-- Which files a connection has open.
pragma database_list

-- name: copy_into
-- One snapshot of the whole file, log included; writers go on meanwhile.
vacuum into :file

-- name: begin_snapshot
-- Several reads of one moment, which is that of the first.
begin deferred
