/*-------------------------------------------------------------------------
 *
 * server_rules.c
 *	  The rules for groups, as settings and subscription are now.
 *
 * Runs in:	the leader.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/commit_ts.h"
#include "access/xact.h"

#include "server/server_compat.h"
#include "server/server_guc.h"
#include "server/server_rules.h"

PpaGroupRules
ppa_rules_now(void)
{
	PpaGroupRules rules = {
		.max_transactions = ppa_guc_group_transactions,
		.max_bytes = (size_t) ppa_guc_group_bytes * 1024
	};

	/*
	 * While a transaction is to be skipped, each commit may be the one that
	 * clears the LSN.  Above READ COMMITTED, what runs in a local transaction
	 * would see all members with the snapshot of the first.
	 */
	rules.grouping = XLogRecPtrIsInvalid(MySubscription->skiplsn) &&
		DefaultXactIsoLevel <= XACT_READ_COMMITTED &&
		(ppa_guc_group_commit == PPA_GROUP_COMMIT_ON ||
		 (ppa_guc_group_commit == PPA_GROUP_COMMIT_AUTO && !track_commit_timestamp));
	return rules;
}
