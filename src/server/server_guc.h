/*-------------------------------------------------------------------------
 *
 * server_guc.h
 *	  The settings of pg_parallel_apply.
 *
 * All are PGC_SIGHUP: background processes never see SET.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_SERVER_GUC_H
#define PPA_SERVER_GUC_H

#include "postgres.h"

typedef enum PpaGroupCommit
{
	PPA_GROUP_COMMIT_AUTO,
	PPA_GROUP_COMMIT_ON,
	PPA_GROUP_COMMIT_OFF
} PpaGroupCommit;

extern char *ppa_guc_subscriptions;
extern int	ppa_guc_group_commit;
extern int	ppa_guc_group_transactions;
extern int	ppa_guc_group_bytes;	/* in kB */

/* Counts changes of pg_parallel_apply.subscriptions seen by this process. */
extern uint32 ppa_guc_subscriptions_generation;

/* Called once, by _PG_init in the postmaster. */
extern void ppa_guc_define(void);

#endif							/* PPA_SERVER_GUC_H */
