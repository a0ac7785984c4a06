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

#include "core/core_schedule.h"
#include "server/server_guc.h"
#include "server/server_sublist.h"

char	   *ppa_guc_subscriptions = NULL;
int			ppa_guc_workers = 4;
int			ppa_guc_debug_dependencies = PPA_DEBUG_DEPENDENCIES_TABLE;
int			ppa_guc_debug_stop = PPA_DEBUG_STOP_OFF;
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

static const struct config_enum_entry debug_dependencies_options[] = {
	{"table", PPA_DEBUG_DEPENDENCIES_TABLE, false},
	{"none", PPA_DEBUG_DEPENDENCIES_NONE, false},
	{"all", PPA_DEBUG_DEPENDENCIES_ALL, false},
	{NULL, 0, false}
};

static const struct config_enum_entry debug_stop_options[] = {
	{"off", PPA_DEBUG_STOP_OFF, false},
	{"", PPA_DEBUG_STOP_OFF, true},
	{"die-before-commit", PPA_DEBUG_STOP_BEFORE_COMMIT, false},
	{"die-after-commit", PPA_DEBUG_STOP_AFTER_COMMIT, false},
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

	DefineCustomIntVariable("pg_parallel_apply.workers",
							"Sets the most apply workers of one subscription.",
							"They are taken from max_worker_processes, as they are needed.  "
							"0: the apply worker applies by itself.",
							&ppa_guc_workers,
							4,
							0,
							PPA_SCHEDULE_MAX_WORKERS,
							PGC_SIGHUP,
							0,
							NULL,
							NULL,
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

	DefineCustomEnumVariable("pg_parallel_apply.debug_dependencies",
							 "Replaces the dependencies that the leader finds by wrong ones.",
							 "For tests: the result of parallel apply does not rest on them.",
							 &ppa_guc_debug_dependencies,
							 PPA_DEBUG_DEPENDENCIES_TABLE,
							 debug_dependencies_options,
							 PGC_SIGHUP,
							 GUC_NOT_IN_SAMPLE | GUC_NO_SHOW_ALL,
							 NULL,
							 NULL,
							 NULL);

	DefineCustomEnumVariable("pg_parallel_apply.debug_stop",
							 "Lets the apply worker that has the commit turn die, once per start of the server.",
							 "For tests.",
							 &ppa_guc_debug_stop,
							 PPA_DEBUG_STOP_OFF,
							 debug_stop_options,
							 PGC_SIGHUP,
							 GUC_NOT_IN_SAMPLE | GUC_NO_SHOW_ALL,
							 NULL,
							 NULL,
							 NULL);

	MarkGUCPrefixReserved("pg_parallel_apply");
}
