/*-------------------------------------------------------------------------
 *
 * bench_ceiling.c
 *	  The speed limit of a backlog drain: read a logical slot, discard all.
 *
 * One libpq replication connection, pgoutput protocol version 1.  Nothing is
 * parsed except what is needed to count transactions and to know where to
 * stop, so the time is that of the publisher's decoding.  Two habits keep the
 * reader from slowing the walsender down, which would measure the reader:
 * when the socket runs dry it naps instead of waking up per message, and it
 * sends feedback at intervals instead of at every empty socket.
 *
 * Prints one JSON line: transactions (COMMIT messages), messages (pgoutput
 * messages, keepalives not counted), bytes (CopyData payload of those,
 * including the 25 bytes of header each), seconds (from connecting until the
 * end position was seen).
 *
 * A position is reported as flushed only after its COMMIT was read, or when a
 * keepalive says that there is nothing to send before it.  With --keep no
 * flush position is ever reported: the slot can be read again.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <libpq-fe.h>

#define NAP_NS			500000L		/* 0.5 ms, as the extension naps */
#define FEEDBACK_US		100000		/* 0.1 s */
#define SILENCE_US		60000000	/* give up after a minute without data */
#define EPOCH_SHIFT_US	INT64_C(946684800000000)	/* 1970 to 2000 */

#define XLOGDATA_HEADER		25	/* 'w', start, end, time */
#define KEEPALIVE_LENGTH	18	/* 'k', end, time, reply wanted */
#define COMMIT_LENGTH		26	/* 'C', flags, LSN, end LSN, time */
#define FEEDBACK_LENGTH		34	/* 'r', write, flush, apply, time, reply */

typedef struct Reader
{
	PGconn	   *conn;
	bool		keep;			/* never report a flush position */
	bool		reply_wanted;
	uint64_t	until;
	uint64_t	seen;			/* all commits before this were read */
	int64_t		transactions;
	int64_t		messages;
	int64_t		bytes;
} Reader;

static void
fail(Reader *reader, const char *what)
{
	fprintf(stderr, "bench_ceiling: %s: %s\n", what,
			reader->conn ? PQerrorMessage(reader->conn) : "");
	exit(1);
}

static int64_t
now_us(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (int64_t) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static uint64_t
get_u64(const char *p)
{
	uint64_t	v = 0;

	for (int i = 0; i < 8; i++)
		v = v << 8 | (unsigned char) p[i];
	return v;
}

static void
put_u64(char *p, uint64_t v)
{
	for (int i = 7; i >= 0; i--, v >>= 8)
		p[i] = (char) (v & 0xff);
}

static void
send_feedback(Reader *reader)
{
	char		msg[FEEDBACK_LENGTH];
	uint64_t	flush = reader->keep ? 0 : reader->seen;

	msg[0] = 'r';
	put_u64(msg + 1, reader->seen);
	put_u64(msg + 9, flush);
	put_u64(msg + 17, flush);
	put_u64(msg + 25, (uint64_t) (now_us(CLOCK_REALTIME) - EPOCH_SHIFT_US));
	msg[33] = 0;
	if (PQputCopyData(reader->conn, msg, sizeof(msg)) <= 0 ||
		PQflush(reader->conn) < 0)
		fail(reader, "could not send feedback");
}

static void
advance(Reader *reader, uint64_t position)
{
	if (position > reader->seen)
		reader->seen = position;
}

static void
take_message(Reader *reader, const char *buf, int len)
{
	if (buf[0] == 'w' && len > XLOGDATA_HEADER)
	{
		const char *payload = buf + XLOGDATA_HEADER;

		reader->messages++;
		reader->bytes += len;
		if (payload[0] == 'C' && len >= XLOGDATA_HEADER + COMMIT_LENGTH)
		{
			reader->transactions++;
			advance(reader, get_u64(payload + 10));
		}
	}
	else if (buf[0] == 'k' && len >= KEEPALIVE_LENGTH)
	{
		advance(reader, get_u64(buf + 1));
		reader->reply_wanted = buf[17] != 0;
	}
	else
	{
		fprintf(stderr, "bench_ceiling: unexpected message of type 0x%02x, %d bytes\n",
				(unsigned char) buf[0], len);
		exit(1);
	}
}

/* Read until the end position was seen. */
static void
read_backlog(Reader *reader)
{
	const struct timespec nap = {0, NAP_NS};
	int64_t		last_feedback = now_us(CLOCK_MONOTONIC);
	int64_t		last_data = last_feedback;
	int64_t		counted = 0;	/* messages when the input last ran dry */
	bool		dry = false;	/* nothing came since the socket was read */

	while (reader->seen < reader->until)
	{
		char	   *buf;
		int			len = PQgetCopyData(reader->conn, &buf, 1);

		if (len > 0)
		{
			take_message(reader, buf, len);
			PQfreemem(buf);
			dry = false;
			if (!reader->reply_wanted)
				continue;
		}
		else if (len < 0)
			fail(reader, "the stream ended early");

		/* Here the input has run dry, or the publisher wants an answer. */
		int64_t		now = now_us(CLOCK_MONOTONIC);

		if (reader->messages != counted)
		{
			counted = reader->messages;
			last_data = now;
		}
		else if (now - last_data > SILENCE_US)
		{
			fprintf(stderr, "bench_ceiling: no data for %d s\n", SILENCE_US / 1000000);
			exit(1);
		}
		if (reader->reply_wanted || now - last_feedback >= FEEDBACK_US)
		{
			send_feedback(reader);
			reader->reply_wanted = false;
			last_feedback = now;
		}
		if (len == 0)
		{
			/* Nap only if the socket had nothing either. */
			if (dry)
				nanosleep(&nap, NULL);
			dry = true;
			if (PQconsumeInput(reader->conn) == 0)
				fail(reader, "could not read");
		}
	}
}

/* End the stream in order, so that the slot is free when we exit. */
static void
end_stream(Reader *reader)
{
	char	   *buf;
	int			len;
	PGresult   *res;

	send_feedback(reader);
	if (PQputCopyEnd(reader->conn, NULL) <= 0 || PQflush(reader->conn) < 0)
		fail(reader, "could not end the stream");
	while ((len = PQgetCopyData(reader->conn, &buf, 0)) > 0)
		PQfreemem(buf);
	while ((res = PQgetResult(reader->conn)) != NULL)
		PQclear(res);
	PQfinish(reader->conn);
	reader->conn = NULL;
}

static void
start_stream(Reader *reader, const char *conninfo, const char *slot,
			 const char *publication)
{
	const char *const keywords[] = {"dbname", "replication",
	"fallback_application_name", NULL};
	const char *const values[] = {conninfo, "database", "bench_ceiling", NULL};
	char		command[512];
	PGresult   *res;

	if (strpbrk(slot, "'\"\\") || strpbrk(publication, "'\"\\"))
	{
		fprintf(stderr, "bench_ceiling: no quotes or backslashes in names, please\n");
		exit(1);
	}
	if (snprintf(command, sizeof(command),
				 "START_REPLICATION SLOT \"%s\" LOGICAL 0/0 "
				 "(proto_version '1', publication_names '\"%s\"')",
				 slot, publication) >= (int) sizeof(command))
	{
		fprintf(stderr, "bench_ceiling: names too long\n");
		exit(1);
	}
	reader->conn = PQconnectdbParams(keywords, values, 1);
	if (PQstatus(reader->conn) != CONNECTION_OK)
		fail(reader, "could not connect");
	res = PQexec(reader->conn, command);
	if (PQresultStatus(res) != PGRES_COPY_BOTH)
		fail(reader, "could not start replication");
	PQclear(res);
}

static void
usage(void)
{
	fprintf(stderr,
			"usage: bench_ceiling [--keep] CONNINFO SLOT PUBLICATION UNTIL_LSN\n"
			"  --keep   do not advance the slot, so that it can be read again\n");
	exit(2);
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{"keep", no_argument, NULL, 'k'},
		{NULL, 0, NULL, 0}
	};
	Reader		reader = {0};
	uint32_t	hi;
	uint32_t	lo;
	int			c;
	char		rest;
	int64_t		start;
	int64_t		end;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
	{
		if (c != 'k')
			usage();
		reader.keep = true;
	}
	if (argc - optind != 4)
		usage();
	if (sscanf(argv[optind + 3], "%" SCNx32 "/%" SCNx32 "%c", &hi, &lo, &rest) != 2)
	{
		fprintf(stderr, "bench_ceiling: \"%s\" is not an LSN\n", argv[optind + 3]);
		return 2;
	}
	reader.until = (uint64_t) hi << 32 | lo;

	start = now_us(CLOCK_MONOTONIC);
	start_stream(&reader, argv[optind], argv[optind + 1], argv[optind + 2]);
	read_backlog(&reader);
	end = now_us(CLOCK_MONOTONIC);
	end_stream(&reader);

	printf("{\"transactions\": %" PRId64 ", \"messages\": %" PRId64
		   ", \"bytes\": %" PRId64 ", \"seconds\": %.6f}\n",
		   reader.transactions, reader.messages, reader.bytes,
		   (double) (end - start) / 1e6);
	return 0;
}
