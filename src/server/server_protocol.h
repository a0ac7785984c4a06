/*-------------------------------------------------------------------------
 *
 * server_protocol.h
 *	  What to say of a message that is not as the protocol wants it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_SERVER_PROTOCOL_H
#define PPA_SERVER_PROTOCOL_H

#include "postgres.h"

#include "wire/wire_message.h"

/* ERROR, protocol_violation: names message type and offset. */
extern void ppa_protocol_error(const PpaWireError *err) pg_attribute_noreturn();

#endif							/* PPA_SERVER_PROTOCOL_H */
