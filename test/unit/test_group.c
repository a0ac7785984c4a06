/*-------------------------------------------------------------------------
 *
 * test_group.c
 *	  Which remote transactions share a local transaction.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "core/core_group.h"
#include "unit.h"

static const PpaGroupRules rules = {.grouping = true,.max_transactions = 3,.max_bytes = 1000};

/* A group of "n" transactions of "bytes" each. */
static PpaGroup
group_of(int n, size_t bytes)
{
	PpaGroup	group = {0};
	PpaTxnFacts txn = {.bytes = bytes};

	for (int i = 0; i < n; i++)
		ppa_group_add(&rules, &group, &txn);
	return group;
}

static bool
admits(PpaGroup group, PpaTxnFacts txn)
{
	return ppa_group_admits(&rules, &group, &txn);
}

static void
test_limits(void)
{
	PpaTxnFacts small = {.bytes = 10};
	PpaTxnFacts large = {.bytes = 5000};
	PpaGroup	group;

	ok(admits(group_of(0, 0), small), "an empty group admits a transaction");
	ok(admits(group_of(0, 0), large), "an empty group admits one above the byte limit");
	ok(admits(group_of(2, 10), small), "a group below its limits admits another");
	ok(!admits(group_of(3, 10), small), "a group of max_transactions admits no other");
	ok(admits(group_of(1, 990), small), "bytes may reach the limit");
	ok(!admits(group_of(1, 991), small), "bytes may not pass the limit");

	group = group_of(0, 0);
	ok(!ppa_group_is_full(&rules, &group), "an empty group is not full");
	group = group_of(2, 10);
	ok(!ppa_group_is_full(&rules, &group), "a group below its limits is not full");
	group = group_of(3, 10);
	ok(ppa_group_is_full(&rules, &group), "a group of max_transactions is full");
	group = group_of(1, 1000);
	ok(ppa_group_is_full(&rules, &group), "a group of max_bytes is full");
}

/* Transactions that must have a group of their own keep off both sides. */
static void
check_alone(PpaTxnFacts txn, const char *what)
{
	PpaGroup	group = {0};
	PpaTxnFacts other = {.bytes = 10};

	ok(!admits(group_of(1, 10), txn), "%s: does not join others", what);
	ok(admits(group, txn), "%s: starts a group", what);
	ppa_group_add(&rules, &group, &txn);
	ok(ppa_group_is_full(&rules, &group), "%s: its group is full", what);
	ok(!admits(group, other), "%s: nobody joins it", what);
}

static void
test_alone(void)
{
	PpaTxnFacts unsettled = {.bytes = 10,.unsettled = true};
	PpaTxnFacts other = {.bytes = 10};
	PpaGroup	group = {0};

	check_alone((PpaTxnFacts) {.bytes = 10,.solo = true}, "solo");
	check_alone((PpaTxnFacts) {.bytes = 10,.truncates = true}, "truncate");

	ok(!admits(group_of(1, 10), unsettled), "unsettled: does not join others");
	ppa_group_add(&rules, &group, &unsettled);
	ok(!ppa_group_is_full(&rules, &group), "unsettled: its group is open");
	ok(admits(group, other), "unsettled: others may join it");
}

static void
test_no_grouping(void)
{
	PpaGroupRules off = {.grouping = false,.max_transactions = 100,.max_bytes = 1000};
	PpaTxnFacts txn = {.bytes = 10};
	PpaGroup	group = {0};

	ok(ppa_group_admits(&off, &group, &txn), "no grouping: one is admitted");
	ppa_group_add(&off, &group, &txn);
	ok(ppa_group_is_full(&off, &group), "no grouping: one is enough");
	ok(!ppa_group_admits(&off, &group, &txn), "no grouping: a second is not admitted");
}

int
main(void)
{
	test_limits();
	test_alone();
	test_no_grouping();
	return unit_done();
}
