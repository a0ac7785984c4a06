/* pg_parallel_apply--0.1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION pg_parallel_apply" to load this file. \quit

-- One row per subscription that has or had an apply worker since the server
-- started; see the view below for the columns.
CREATE FUNCTION @extschema@.stat_subscription(
	OUT subid oid,
	OUT subname name,
	OUT datid oid,
	OUT pid int4,
	OUT state text,
	OUT workers_wanted int4,
	OUT workers_running int4,
	OUT received_lsn pg_lsn,
	OUT dispatched_lsn pg_lsn,
	OUT applied_lsn pg_lsn,
	OUT flushed_lsn pg_lsn,
	OUT lag_bytes int8,
	OUT lag_seconds float8,
	OUT queued_groups int4,
	OUT queued_bytes int8,
	OUT groups int8,
	OUT transactions int8,
	OUT inserts int8,
	OUT updates int8,
	OUT deletes int8,
	OUT truncates int8,
	OUT multi_insert_rows int8,
	OUT missing_rows int8,
	OUT group_replays int8,
	OUT groups_alone int8,
	OUT groups_large int8,
	OUT groups_aborted int8,
	OUT ordered_changes int8,
	OUT relations_ordered int8,
	OUT dependency_waits int8,
	OUT turn_waits int8,
	OUT retries_missing int8,
	OUT retries_unique int8,
	OUT retries_deadlock int8,
	OUT retries_other int8,
	OUT refused_workers int8,
	OUT errors int8,
	OUT last_error text,
	OUT last_error_sqlstate text,
	OUT last_error_time timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'ppa_stat_subscription'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE VIEW @extschema@.stat_subscription AS
SELECT s.subid,
	   s.subname,
	   d.datname,
	   s.pid,
	   s.state,
	   s.workers_wanted,
	   s.workers_running,
	   s.received_lsn,
	   s.dispatched_lsn,
	   s.applied_lsn,
	   s.flushed_lsn,
	   s.lag_bytes,
	   s.lag_seconds,
	   s.queued_groups,
	   s.queued_bytes,
	   s.groups,
	   s.transactions,
	   s.inserts,
	   s.updates,
	   s.deletes,
	   s.truncates,
	   s.multi_insert_rows,
	   s.missing_rows,
	   s.group_replays,
	   s.groups_alone,
	   s.groups_large,
	   s.groups_aborted,
	   s.ordered_changes,
	   s.relations_ordered,
	   s.dependency_waits,
	   s.turn_waits,
	   s.retries_missing,
	   s.retries_unique,
	   s.retries_deadlock,
	   s.retries_other,
	   s.refused_workers,
	   s.errors,
	   s.last_error,
	   s.last_error_sqlstate,
	   s.last_error_time
FROM @extschema@.stat_subscription() AS s
LEFT JOIN pg_catalog.pg_database AS d ON d.oid = s.datid;

COMMENT ON VIEW @extschema@.stat_subscription IS
'progress and counters of subscriptions, since the server started';

-- One row per apply worker process; see the view below for the columns.
CREATE FUNCTION @extschema@.stat_worker(
	OUT subid oid,
	OUT subname name,
	OUT datid oid,
	OUT worker int4,
	OUT pid int4,
	OUT state text,
	OUT wait text,
	OUT wait_group int8,
	OUT blocking_pids int4[],
	OUT group_number int8,
	OUT remote_xid xid,
	OUT remote_lsn pg_lsn,
	OUT relation text,
	OUT operation text,
	OUT rows_done int8,
	OUT rows_total int8,
	OUT groups_total int8,
	OUT replays int8)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'ppa_stat_worker'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE VIEW @extschema@.stat_worker AS
SELECT w.subid,
	   w.subname,
	   d.datname,
	   w.worker,
	   w.pid,
	   w.state,
	   w.wait,
	   w.wait_group,
	   w.blocking_pids,
	   w.group_number,
	   w.remote_xid,
	   w.remote_lsn,
	   w.relation,
	   w.operation,
	   w.rows_done,
	   w.rows_total,
	   w.groups_total,
	   w.replays
FROM @extschema@.stat_worker() AS w
LEFT JOIN pg_catalog.pg_database AS d ON d.oid = w.datid;

COMMENT ON VIEW @extschema@.stat_worker IS
'what each apply worker is doing at present, and what it waits for';

CREATE FUNCTION @extschema@.wait_until_applied(
	subscription name,
	lsn pg_lsn,
	timeout interval DEFAULT NULL)
RETURNS bool
AS 'MODULE_PATHNAME', 'ppa_wait_until_applied'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION @extschema@.wait_until_applied(name, pg_lsn, interval) IS
'waits until all that the publisher committed before lsn is visible here; false: timeout';

REVOKE ALL ON SCHEMA @extschema@ FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.stat_subscription() FROM PUBLIC;
REVOKE ALL ON @extschema@.stat_subscription FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.stat_worker() FROM PUBLIC;
REVOKE ALL ON @extschema@.stat_worker FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.wait_until_applied(name, pg_lsn, interval) FROM PUBLIC;

GRANT USAGE ON SCHEMA @extschema@ TO pg_monitor;
GRANT EXECUTE ON FUNCTION @extschema@.stat_subscription() TO pg_monitor;
GRANT SELECT ON @extschema@.stat_subscription TO pg_monitor;
GRANT EXECUTE ON FUNCTION @extschema@.stat_worker() TO pg_monitor;
GRANT SELECT ON @extschema@.stat_worker TO pg_monitor;
GRANT EXECUTE ON FUNCTION @extschema@.wait_until_applied(name, pg_lsn, interval) TO pg_monitor;
