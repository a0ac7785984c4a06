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

/* Developer settings: what the leader takes for known about dependencies. */
typedef enum PpaDebugDependencies
{
	PPA_DEBUG_DEPENDENCIES_TABLE,
	PPA_DEBUG_DEPENDENCIES_NONE,
	PPA_DEBUG_DEPENDENCIES_ALL
} PpaDebugDependencies;

/* Developer settings: where the worker that has the commit turn dies, once. */
typedef enum PpaDebugStop
{
	PPA_DEBUG_STOP_OFF,
	PPA_DEBUG_STOP_BEFORE_COMMIT,
	PPA_DEBUG_STOP_AFTER_COMMIT
} PpaDebugStop;

extern char *ppa_guc_subscriptions;
extern int	ppa_guc_workers;		/* 0: the leader applies by itself */
extern int	ppa_guc_debug_dependencies;
extern int	ppa_guc_debug_stop;
extern int	ppa_guc_group_commit;
extern int	ppa_guc_group_transactions;
extern int	ppa_guc_group_bytes;	/* in kB */

/* Counts changes of pg_parallel_apply.subscriptions seen by this process. */
extern uint32 ppa_guc_subscriptions_generation;

/* Called once, by _PG_init in the postmaster. */
extern void ppa_guc_define(void);

#endif							/* PPA_SERVER_GUC_H */
