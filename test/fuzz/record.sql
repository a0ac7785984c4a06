-- What the publisher does while test/fuzz/record records its messages: tables
-- of every replica identity and of many types, transactions of every kind of
-- change, and publications that show the same changes in different ways.
\set ON_ERROR_STOP on
SET client_min_messages = warning;

CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE SCHEMA "Odd ""schema";
CREATE TYPE "Odd ""schema"."Odd type" AS ENUM ('one');

-- Many types, default identity.
CREATE TABLE types (
	id bigint PRIMARY KEY,
	i2 smallint, i4 int, f4 real, f8 double precision, n numeric, nn numeric(10, 2),
	b bool, c "char", ch char(10), v varchar(20), t text, ba bytea,
	d date, tm time, tz timestamptz, iv interval,
	u uuid, j json, jb jsonb, x xml,
	ip inet, mac macaddr, bits bit(5), vbits bit varying,
	pt point, bx box, r int4range, mr int4multirange, ts tsvector, lsn pg_lsn,
	arr int[], tarr text[], m mood, pr pair, dom positive, oid_ oid, reg regclass
);

-- Identities.
CREATE TABLE ident_full (a int, b text, c numeric);
ALTER TABLE ident_full REPLICA IDENTITY FULL;
CREATE TABLE ident_index (a int, k1 int NOT NULL, b text, k2 text NOT NULL);
CREATE UNIQUE INDEX ident_index_key ON ident_index (k1, k2);
ALTER TABLE ident_index REPLICA IDENTITY USING INDEX ident_index_key;
CREATE TABLE ident_nothing (a int, b text);
ALTER TABLE ident_nothing REPLICA IDENTITY NOTHING;
CREATE TABLE ident_composite (k1 int, k2 text, v text, PRIMARY KEY (k2, k1));
CREATE TABLE "Odd ""schema"."Odd table" (
	"Odd ""column" int PRIMARY KEY, "ümlaut" "Odd ""schema"."Odd type");

-- Stored out of line: an unchanged value is not sent.
CREATE TABLE toasted (id int PRIMARY KEY, big text, n int, big2 bytea);
ALTER TABLE toasted ALTER big SET STORAGE EXTERNAL, ALTER big2 SET STORAGE EXTERNAL;
CREATE TABLE toasted_full (id int, big text, n int);
ALTER TABLE toasted_full ALTER big SET STORAGE EXTERNAL, REPLICA IDENTITY FULL;

-- Dropped, generated and identity columns.
CREATE TABLE dropped (
	id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, gone int, a int,
	twice int GENERATED ALWAYS AS (a * 2) STORED);
ALTER TABLE dropped DROP COLUMN gone;
CREATE TABLE no_columns ();
ALTER TABLE no_columns REPLICA IDENTITY FULL;

-- As wide as tables get: the RELATION is too long to keep, an INSERT of NULLs
-- is not.  The other two are wide with both kept.
SELECT format('CREATE TABLE widest (%s)', string_agg('c' || i || ' int', ', '))
	FROM generate_series(1, 1600) AS i \gexec
SELECT format('CREATE TABLE wide (id int PRIMARY KEY, %s)', string_agg('c' || i || ' int', ', '))
	FROM generate_series(1, 120) AS i \gexec
SELECT format('CREATE TABLE wide_full (%s)', string_agg('c' || i || ' text', ', '))
	FROM generate_series(1, 60) AS i \gexec
ALTER TABLE wide_full REPLICA IDENTITY FULL;

-- Partitions with unlike column order.
CREATE TABLE parted (id int, region text, v text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE parted_a PARTITION OF parted FOR VALUES IN ('a');
CREATE TABLE parted_b (v text, region text NOT NULL, id int NOT NULL, PRIMARY KEY (id, region));
ALTER TABLE parted ATTACH PARTITION parted_b FOR VALUES IN ('b');

-- TRUNCATE of several tables.
CREATE TABLE trunc (id serial PRIMARY KEY, v text);
CREATE TABLE trunc_child (id int PRIMARY KEY, trunc_id int REFERENCES trunc);

CREATE PUBLICATION p FOR ALL TABLES;
CREATE PUBLICATION p_root FOR ALL TABLES WITH (publish_via_partition_root = true);
CREATE PUBLICATION p_list FOR TABLE types (id, t, m, arr),
	ident_composite (k1, k2) WHERE (k1 > 1);

SELECT pg_create_logical_replication_slot('s', 'pgoutput');

-- Values of every type, all NULL, and empty or extreme ones.
INSERT INTO types VALUES (1, 2, 3, 1.5, 2.25, 12345.6789, 12.34,
	true, 'x', 'char', 'varchar', 'text', '\xdeadbeef',
	'2024-02-29', '12:34:56', '2024-02-29 12:34:56+00', '1 day 2 hours',
	'6ecd8c99-4036-403d-bf84-cf8400f67836', '{"a": 1}', '{"b": [1, 2]}', '<a/>',
	'10.1.2.3/24', '08:00:2b:01:02:03', B'10101', B'1',
	'(1,2)', '(1,2),(3,4)', '[1,5)', '{[1,2),[5,9)}', 'a fat cat', '16/B374D848',
	'{1,2,NULL}', '{a,"b c",NULL}', 'happy', '(1,"x y")', 7, 26, 'pg_class');
INSERT INTO types (id) VALUES (2);
INSERT INTO types (id, n, t, ba, d, tz, iv, r, arr, f8, ch, jb) VALUES (3, 'NaN', '', '',
	'infinity', '-infinity', '0', 'empty', '{}', 'Infinity', '', '{}');
INSERT INTO types (id, t, ba) VALUES (4, repeat('ü€𝄞', 40), decode(repeat('00ff', 150), 'hex'));

-- Updates without and with a change of the key; NULL to value and back.
UPDATE types SET t = 'other', m = 'sad' WHERE id = 1;
UPDATE types SET id = 10, m = NULL WHERE id = 1;
UPDATE types SET i4 = 4, b = false WHERE id = 2;
DELETE FROM types WHERE id IN (2, 3);

-- Several statements and subtransactions in one transaction.
BEGIN;
INSERT INTO ident_composite SELECT i, 'k' || i, 'v' FROM generate_series(1, 5) AS i;
SAVEPOINT a;
UPDATE ident_composite SET v = NULL WHERE k1 = 1;
ROLLBACK TO a;
UPDATE ident_composite SET k1 = k1 + 10 WHERE k1 < 3;
UPDATE ident_composite SET k2 = '' WHERE k1 = 3;
DELETE FROM ident_composite WHERE k1 > 3;
COMMIT;

INSERT INTO ident_full VALUES (1, 'x', 1.5), (1, 'x', 1.5), (NULL, NULL, NULL), (2, '', 0);
UPDATE ident_full SET a = 5 WHERE b = 'x';
UPDATE ident_full SET b = 'set' WHERE a IS NULL;
UPDATE ident_full SET c = NULL WHERE a = 2;
DELETE FROM ident_full;
INSERT INTO ident_index VALUES (1, 1, 'b', 'key'), (NULL, 2, NULL, '');
UPDATE ident_index SET a = 2 WHERE k1 = 1;
UPDATE ident_index SET k2 = 'other' WHERE k1 = 1;
UPDATE ident_index SET k1 = 1000000, b = NULL WHERE k1 = 2;
DELETE FROM ident_index;
INSERT INTO ident_nothing VALUES (1, 'x'), (NULL, NULL);
INSERT INTO "Odd ""schema"."Odd table" VALUES (1, 'one'), (2, NULL);
UPDATE "Odd ""schema"."Odd table" SET "Odd ""column" = 3 WHERE "Odd ""column" = 1;
DELETE FROM "Odd ""schema"."Odd table";

INSERT INTO toasted VALUES (1, repeat('x', 9000), 1, decode(repeat('00', 9000), 'hex')), (2, 'short', 2, NULL);
UPDATE toasted SET n = 3;
UPDATE toasted SET id = 4 WHERE id = 1;
UPDATE toasted SET big = 'now short' WHERE id = 4;
UPDATE toasted SET big2 = '\x00', n = NULL WHERE id = 4;
DELETE FROM toasted;
INSERT INTO toasted_full VALUES (1, repeat('y', 9000), 1);
UPDATE toasted_full SET n = 2;
UPDATE toasted_full SET big = NULL;
DELETE FROM toasted_full;

INSERT INTO dropped (a) VALUES (1), (NULL);
UPDATE dropped SET a = 5 WHERE a = 1;
DELETE FROM dropped;
INSERT INTO no_columns DEFAULT VALUES;

INSERT INTO widest DEFAULT VALUES;
INSERT INTO widest (c1600) VALUES (1);
INSERT INTO wide (id, c1, c60, c120) VALUES (1, 1, 60, 120);
UPDATE wide SET id = 2, c60 = NULL;
DELETE FROM wide;
INSERT INTO wide_full (c1, c2, c59, c60) VALUES ('a', '', repeat('b', 120), 'c');
UPDATE wide_full SET c2 = 'x', c60 = NULL;
DELETE FROM wide_full;

INSERT INTO parted VALUES (1, 'a', 'x'), (2, 'b', NULL);
UPDATE parted SET v = 'y';
UPDATE parted SET region = 'b' WHERE region = 'a';
UPDATE parted SET id = 5 WHERE id = 2;
DELETE FROM parted WHERE id = 5;
TRUNCATE parted;

-- A schema change: RELATION once more, with other columns.
ALTER TABLE trunc ADD more mood DEFAULT 'ok', ADD v20 varchar(20);
INSERT INTO trunc (v, v20) VALUES ('x', 'y');
ALTER TABLE trunc REPLICA IDENTITY FULL;
UPDATE trunc SET v = 'z';
INSERT INTO trunc_child VALUES (1, 1);
TRUNCATE trunc_child;
TRUNCATE trunc, trunc_child RESTART IDENTITY;
TRUNCATE trunc CASCADE;
TRUNCATE trunc RESTART IDENTITY CASCADE;
TRUNCATE types, toasted, ident_full;

-- Logical messages, with and without a transaction.
SELECT pg_logical_emit_message(true, 'prefix', 'text');
SELECT pg_logical_emit_message(false, '', ''::bytea);
SELECT pg_logical_emit_message(false, 'binary', '\x000102ff'::bytea);
SELECT pg_logical_emit_message(true, 'long', repeat('m', 500));

-- Transactions that came from elsewhere.
SELECT pg_replication_origin_create('upstream');
SELECT pg_replication_origin_session_setup('upstream');
INSERT INTO ident_nothing VALUES (2, 'origin without position');
BEGIN;
SELECT pg_replication_origin_xact_setup('1/23456789', '2024-01-01 00:00:00+00');
INSERT INTO ident_nothing VALUES (3, 'origin with position');
COMMIT;
SELECT pg_replication_origin_session_reset();
