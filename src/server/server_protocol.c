/*-------------------------------------------------------------------------
 *
 * server_protocol.c
 *	  What to say of a message that is not as the protocol wants it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "server/server_protocol.h"

void
ppa_protocol_error(const PpaWireError *err)
{
	unsigned char type = (unsigned char) err->type;

	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 (type >= 0x20 && type < 0x7f) ?
			 errmsg("malformed logical replication message of type \"%c\" at offset %zu: expected %s",
					type, err->offset, err->what) :
			 errmsg("malformed logical replication message of type %d at offset %zu: expected %s",
					type, err->offset, err->what)));
}
