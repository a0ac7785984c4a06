/*-------------------------------------------------------------------------
 *
 * core_assert.h
 *	  Assertions of the pure parts.
 *
 * With -DPPA_ASSERT a failed assertion calls ppa_assert_failed(), which the
 * embedding program supplies and which must not return: the simulator prints
 * the command that replays the seed, the server maps it to its own Assert.
 * Without it the condition is not evaluated.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_CORE_ASSERT_H
#define PPA_CORE_ASSERT_H

#ifdef PPA_ASSERT
extern void ppa_assert_failed(const char *condition, const char *file, int line)
			__attribute__((noreturn));
#define ppa_assert(condition) \
	((condition) ? (void) 0 : ppa_assert_failed(#condition, __FILE__, __LINE__))
#else
#define ppa_assert(condition) ((void) sizeof(!(condition)))
#endif

#endif							/* PPA_CORE_ASSERT_H */
