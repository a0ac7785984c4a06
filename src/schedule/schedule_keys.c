/*-------------------------------------------------------------------------
 *
 * schedule_keys.c
 *	  The keys that a change writes, as 64-bit hashes of wire bytes.
 *
 * Runs in:	the leader; plain C.
 *
 * The hash is MurmurHash64A by Austin Appleby (public domain) in what it does
 * to a word, applied to each column in turn.  Two keys with one hash make the
 * second wait without need, nothing worse.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "schedule/schedule_keys.h"

/* Of MurmurHash64A. */
#define MULTIPLIER UINT64_C(0xc6a4a7935bd1e995)
#define SHIFT 47

/* Where the value of a column is. */
typedef struct Image
{
	const PpaWireTuple *tuple;	/* NULL: there is no such image */
	const PpaWireTuple *unchanged;	/* has the values that this one says are unchanged, or NULL */
} Image;

static inline uint64_t
mix(uint64_t hash, uint64_t word)
{
	word *= MULTIPLIER;
	word ^= word >> SHIFT;
	word *= MULTIPLIER;
	return (hash ^ word) * MULTIPLIER;
}

static inline uint64_t
finish(uint64_t hash)
{
	hash ^= hash >> SHIFT;
	hash *= MULTIPLIER;
	return hash ^ (hash >> SHIFT);
}

static inline uint64_t
load64(const char *p)
{
	uint64_t	word;

	memcpy(&word, p, sizeof(word));
	return word;
}

static inline uint64_t
load32(const char *p)
{
	uint32_t	word;

	memcpy(&word, p, sizeof(word));
	return word;
}

/* At least one byte.  Words may overlap: the length is hashed by the caller. */
static inline uint64_t
mix_bytes(uint64_t hash, const char *p, size_t len)
{
	const char *end = p + len;

	if (len >= 8)
	{
		for (; end - p > 8; p += 8)
			hash = mix(hash, load64(p));
		return mix(hash, load64(end - 8));
	}
	if (len >= 4)
		return mix(hash, load32(p) | load32(end - 4) << 32);
	return mix(hash, (uint64_t) (unsigned char) p[0] |
			   (uint64_t) (unsigned char) p[len / 2] << 8 |
			   (uint64_t) (unsigned char) end[-1] << 16);
}

uint64_t
ppa_key_seed(uint32_t relid, char *const *attnames, int ncolumns, const uint16_t *columns)
{
	uint64_t	hash = mix(MULTIPLIER, relid);

	for (int i = 0; i < ncolumns; i++)
	{
		const char *name = attnames[columns[i]];

		/* with its NUL, which ends it */
		hash = mix_bytes(hash, name, strlen(name) + 1);
	}
	return hash;
}

/* False if the image does not have the key. */
static inline bool
hash_key(const PpaKey *key, const Image *image, uint64_t *result)
{
	uint64_t	hash = key->seed;

	for (int i = 0; i < key->ncolumns; i++)
	{
		const PpaWireTuple *tuple = image->tuple;
		int			column = key->columns[i];

		if (column >= tuple->ncols)
			return false;
		if (tuple->kind[column] == PPA_COLUMN_UNCHANGED)
		{
			tuple = image->unchanged;
			if (tuple == NULL || column >= tuple->ncols)
				return false;
		}
		switch (tuple->kind[column])
		{
			case PPA_COLUMN_NULL:
				if (!key->has_nulls)
					return false;
				hash = mix(hash, PPA_COLUMN_NULL);
				break;
			case PPA_COLUMN_TEXT:
			case PPA_COLUMN_BINARY:
				hash = mix(hash, (uint64_t) tuple->len[column] << 8 | tuple->kind[column]);
				if (tuple->len[column] > 0)
					hash = mix_bytes(hash, tuple->value[column], tuple->len[column]);
				break;
			default:
				return false;
		}
	}
	*result = finish(hash);
	return true;
}

int
ppa_keys_of_change(const PpaRelationKeys *relation, const PpaChange *change, uint64_t *keys)
{
	int			count = 0;

	for (int i = 0; i < relation->nkeys; i++)
	{
		const PpaKey *key = &relation->key[i];
		Image		old = {NULL, NULL};
		Image		new = {NULL, NULL};
		bool		has_old;

		/* an old image of the identity alone has NULL in all other columns */
		if (change->old_kind == PPA_OLD_FULL ||
			(change->old_kind == PPA_OLD_KEY && key->in_identity))
			old.tuple = &change->old_tuple;
		if (change->type != PPA_MSG_DELETE)
		{
			new.tuple = &change->new_tuple;
			new.unchanged = old.tuple;
		}

		has_old = old.tuple != NULL && hash_key(key, &old, &keys[count]);
		if (has_old)
			count++;
		if (new.tuple != NULL && hash_key(key, &new, &keys[count]) &&
			!(has_old && keys[count] == keys[count - 1]))
			count++;
	}
	return count;
}
