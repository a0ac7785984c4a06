/*-------------------------------------------------------------------------
 *
 * server_rules.h
 *	  The rules for groups, as settings and subscription are now.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_SERVER_RULES_H
#define PPA_SERVER_RULES_H

#include "core/core_group.h"

extern PpaGroupRules ppa_rules_now(void);

#endif							/* PPA_SERVER_RULES_H */
