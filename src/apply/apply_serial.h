/*-------------------------------------------------------------------------
 *
 * apply_serial.h
 *	  Serial apply: the leader applies what it has received, in groups.
 *
 * The leader hands over complete remote transactions in batches, or, when one
 * is large, message by message.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_APPLY_SERIAL_H
#define PPA_APPLY_SERIAL_H

#include "postgres.h"

#include "apply/apply_worker.h"

typedef struct PpaSerialHooks
{
	PpaWorkerHooks worker;

	/*
	 * All remote transactions up to end_lsn are applied.  local_lsn is the
	 * end of the local commit record, or invalid if nothing was committed.
	 */
	void		(*applied) (void *arg, XLogRecPtr end_lsn, XLogRecPtr local_lsn);
} PpaSerialHooks;

typedef struct PpaSerial
{
	PpaWorker  *w;
	const PpaSerialHooks *hooks;
} PpaSerial;

/* Once per process; the origin has been adopted. */
extern PpaSerial *ppa_serial_create(MemoryContext parent, PpaSubSlot *slot,
									const PpaSerialHooks *hooks);

/*
 * Apply the members of a batch, in as few local transactions as the rules
 * allow.  After an error they are applied one by one; what is thrown is then
 * the error of the first transaction that fails by itself, with all before it
 * committed.
 */
extern void ppa_serial_apply_batch(PpaSerial *serial, const PpaBatch *batch);

/*
 * Apply a large transaction while it arrives: begin, then its messages, then
 * commit.
 */
extern void ppa_serial_begin(PpaSerial *serial, const PpaMember *txn);
extern void ppa_serial_message(PpaSerial *serial, const char *message, int len);
extern void ppa_serial_commit(PpaSerial *serial, const PpaMember *txn);

#endif							/* PPA_APPLY_SERIAL_H */
