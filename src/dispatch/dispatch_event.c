/*-------------------------------------------------------------------------
 *
 * dispatch_event.c
 *	  What a worker tells the leader, besides what the shared memory shows.
 *
 * An error travels with all that a log entry of it consists of: the leader
 * throws it as if it had happened there, and the server logs it once.
 *
 * Runs in:	the apply workers (write), the leader (read).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "libpq/pqformat.h"

#include "dispatch/dispatch_event.h"

static void
send_text(StringInfo buf, const char *text)
{
	pq_sendbyte(buf, text != NULL);
	if (text != NULL)
		pq_sendstring(buf, text);
}

static char *
get_text(StringInfo buf)
{
	return pq_getmsgbyte(buf) ? pstrdup(pq_getmsgrawstring(buf)) : NULL;
}

/* Both directions go through the same list. */
#define FOR_ALL_TEXTS(edata, what) \
	do { \
		what((edata)->message); \
		what((edata)->detail); \
		what((edata)->detail_log); \
		what((edata)->hint); \
		what((edata)->context); \
		what((edata)->schema_name); \
		what((edata)->table_name); \
		what((edata)->column_name); \
		what((edata)->datatype_name); \
		what((edata)->constraint_name); \
		what((edata)->internalquery); \
	} while (0)

void
ppa_event_write(StringInfo buf, const PpaWorkerEvent *event, const ErrorData *edata)
{
	resetStringInfo(buf);
	appendBinaryStringInfo(buf, (const char *) event, sizeof(*event));
	pq_sendbyte(buf, edata != NULL);
	if (edata == NULL)
		return;
	pq_sendint32(buf, edata->sqlerrcode);
	pq_sendint32(buf, edata->saved_errno);
	pq_sendint32(buf, edata->lineno);
	pq_sendint32(buf, edata->internalpos);
	send_text(buf, edata->filename);
	send_text(buf, edata->funcname);
#define SEND(field) send_text(buf, field)
	FOR_ALL_TEXTS(edata, SEND);
#undef SEND
}

void
ppa_event_read(const char *message, Size len, PpaWorkerEvent *event, ErrorData **edata)
{
	StringInfoData buf = {.data = unconstify(char *, message),.len = len,.maxlen = -1};
	ErrorData  *e;

	*edata = NULL;
	memcpy(event, pq_getmsgbytes(&buf, sizeof(*event)), sizeof(*event));
	if (!pq_getmsgbyte(&buf))
		return;
	e = palloc0(sizeof(ErrorData));
	e->elevel = ERROR;
	e->output_to_server = true;
	e->assoc_context = CurrentMemoryContext;
	e->domain = e->context_domain = PG_TEXTDOMAIN("postgres");
	e->sqlerrcode = pq_getmsgint(&buf, 4);
	e->saved_errno = pq_getmsgint(&buf, 4);
	e->lineno = pq_getmsgint(&buf, 4);
	e->internalpos = pq_getmsgint(&buf, 4);
	e->filename = get_text(&buf);
	e->funcname = get_text(&buf);
#define GET(field) (field) = get_text(&buf)
	FOR_ALL_TEXTS(e, GET);
#undef GET
	*edata = e;
}
