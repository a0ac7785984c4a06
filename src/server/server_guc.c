/*-------------------------------------------------------------------------
 *
 * server_guc.c
 *	  The settings of pg_parallel_apply.
 *
 * Owns:	their definitions and checks.
 * Runs in:	every process of the server.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "utils/guc.h"

#include "server/server_guc.h"
#include "server/server_sublist.h"

char	   *ppa_guc_subscriptions = NULL;
int			ppa_guc_group_commit = PPA_GROUP_COMMIT_AUTO;
int			ppa_guc_group_transactions = 100;
int			ppa_guc_group_bytes = 64;
uint32		ppa_guc_subscriptions_generation = 0;

static const struct config_enum_entry group_commit_options[] = {
	{"auto", PPA_GROUP_COMMIT_AUTO, false},
	{"on", PPA_GROUP_COMMIT_ON, false},
	{"off", PPA_GROUP_COMMIT_OFF, false},
	{"true", PPA_GROUP_COMMIT_ON, true},
	{"false", PPA_GROUP_COMMIT_OFF, true},
	{NULL, 0, false}
};

static bool
check_subscriptions(char **newval, void **extra, GucSource source)
{
	const char *problem = ppa_sublist_check(*newval);

	if (problem == NULL)
		return true;

	GUC_check_errdetail("%s", problem);
	GUC_check_errhint("Use \"*\" for all subscriptions, nothing for none, or a comma-separated list "
					  "of subscription or database.subscription names; quote names as in SQL.");
	return false;
}

static void
assign_subscriptions(const char *newval, void *extra)
{
	ppa_guc_subscriptions_generation++;
}

void
ppa_guc_define(void)
{
	DefineCustomStringVariable("pg_parallel_apply.subscriptions",
							   "Subscriptions that pg_parallel_apply applies instead of the built-in worker.",
							   "\"*\" for all, empty for none, or a list of subscription or "
							   "database.subscription names.",
							   &ppa_guc_subscriptions,
							   "*",
							   PGC_SIGHUP,
							   0,
							   check_subscriptions,
							   assign_subscriptions,
							   NULL);

	DefineCustomEnumVariable("pg_parallel_apply.group_commit",
							 "Applies several consecutive remote transactions in one local transaction.",
							 "\"auto\" does so unless track_commit_timestamp is on.",
							 &ppa_guc_group_commit,
							 PPA_GROUP_COMMIT_AUTO,
							 group_commit_options,
							 PGC_SIGHUP,
							 0,
							 NULL,
							 NULL,
							 NULL);

	DefineCustomIntVariable("pg_parallel_apply.group_transactions",
							"Sets the most remote transactions that share one local transaction.",
							NULL,
							&ppa_guc_group_transactions,
							100,
							1,
							10000,
							PGC_SIGHUP,
							0,
							NULL,
							NULL,
							NULL);

	DefineCustomIntVariable("pg_parallel_apply.group_bytes",
							"Sets the size of the remote transactions that share one local transaction.",
							"A remote transaction larger than this is applied while it arrives.",
							&ppa_guc_group_bytes,
							64,
							1,
							64 * 1024,
							PGC_SIGHUP,
							GUC_UNIT_KB,
							NULL,
							NULL,
							NULL);

	MarkGUCPrefixReserved("pg_parallel_apply");
}
