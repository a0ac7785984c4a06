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
	OUT received_lsn pg_lsn,
	OUT applied_lsn pg_lsn,
	OUT flushed_lsn pg_lsn,
	OUT lag_bytes int8,
	OUT lag_seconds float8,
	OUT groups int8,
	OUT transactions int8,
	OUT inserts int8,
	OUT updates int8,
	OUT deletes int8,
	OUT truncates int8,
	OUT multi_insert_rows int8,
	OUT group_replays int8,
	OUT missing_rows int8,
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
	   s.received_lsn,
	   s.applied_lsn,
	   s.flushed_lsn,
	   s.lag_bytes,
	   s.lag_seconds,
	   s.groups,
	   s.transactions,
	   s.inserts,
	   s.updates,
	   s.deletes,
	   s.truncates,
	   s.multi_insert_rows,
	   s.group_replays,
	   s.missing_rows,
	   s.errors,
	   s.last_error,
	   s.last_error_sqlstate,
	   s.last_error_time
FROM @extschema@.stat_subscription() AS s
LEFT JOIN pg_catalog.pg_database AS d ON d.oid = s.datid;

COMMENT ON VIEW @extschema@.stat_subscription IS
'progress and counters of subscriptions, since the server started';

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
REVOKE ALL ON FUNCTION @extschema@.wait_until_applied(name, pg_lsn, interval) FROM PUBLIC;

GRANT USAGE ON SCHEMA @extschema@ TO pg_monitor;
GRANT EXECUTE ON FUNCTION @extschema@.stat_subscription() TO pg_monitor;
GRANT SELECT ON @extschema@.stat_subscription TO pg_monitor;
GRANT EXECUTE ON FUNCTION @extschema@.wait_until_applied(name, pg_lsn, interval) TO pg_monitor;
