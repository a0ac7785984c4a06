/*-------------------------------------------------------------------------
 *
 * core_group.c
 *	  Which remote transactions share a local transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "core/core_group.h"

/* Must the transaction have a group of its own? */
static bool
must_be_alone(const PpaGroupRules *rules, const PpaTxnFacts *txn)
{
	return !rules->grouping || txn->solo || txn->truncates;
}

bool
ppa_group_admits(const PpaGroupRules *rules, const PpaGroup *group, const PpaTxnFacts *txn)
{
	if (group->transactions == 0)
		return true;
	if (group->sealed || must_be_alone(rules, txn) || txn->unsettled)
		return false;
	return group->transactions < rules->max_transactions &&
		group->bytes + txn->bytes <= rules->max_bytes;
}

void
ppa_group_add(const PpaGroupRules *rules, PpaGroup *group, const PpaTxnFacts *txn)
{
	group->transactions++;
	group->bytes += txn->bytes;
	if (must_be_alone(rules, txn))
		group->sealed = true;
}

bool
ppa_group_is_full(const PpaGroupRules *rules, const PpaGroup *group)
{
	return group->transactions > 0 &&
		(group->sealed || group->transactions >= rules->max_transactions ||
		 group->bytes >= rules->max_bytes);
}
