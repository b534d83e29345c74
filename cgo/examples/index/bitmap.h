/*
 * bitmap: rows to the bitmaps of structs.x, and the rows of an answer.
 */
#ifndef BITMAP_H
#define BITMAP_H

#include <stddef.h>
#include <stdint.h>

#include "structs.h"

/*
 * A text like 1,5,9-12, which ascends, as an array of n rows that is the caller's
 * to free; NULL where it is not that. The text is written to.
 */
uint32_t *read_rows(char *list, size_t *n);

/*
 * The n rows, which ascend, as plain words or in the portable Roaring format
 * (with CRoaring: roaring_bitmap_portable_serialize). Words take 8 bytes for each
 * 64 rows up to the highest. 0, and why on stderr, where it does not fit a call;
 * else 1, and xdr_free((xdrproc_t)xdr_row_bitmap, (char *)b) is the caller's.
 */
int words_of(const uint32_t *rows, size_t n, row_bitmap *b);
int roaring_of(const uint32_t *rows, size_t n, row_bitmap *b);

/*
 * Calls f for the rows of an answer, ascending. A page of words that was asked
 * for from row first on begins at the word of that row; the Roaring format has
 * the rows as they are. 0 where the bytes are not a bitmap: f may then have been
 * called for some rows.
 */
typedef void row_fn(uint64_t row, void *arg);
int page_rows(const row_bitmap *b, uint64_t first, row_fn *f, void *arg);

#endif
