/*
 * bitmap: rows to the bitmaps of structs.x, and the rows of an answer.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bitmap.h"

#define MAX_BYTES ((64 << 20) - 4096)   /* of one call: the master's record limit */
#define MAX_ROWS  100000000u            /* that read_rows expands */

static int row_of(const char *text, uint64_t *row)
{
	char *end;

	if (*text < '0' || *text > '9')
		return 0;
	errno = 0;
	*row = strtoull(text, &end, 10);
	return errno == 0 && *end == '\0' && *row <= UINT32_MAX;
}

uint32_t *read_rows(char *list, size_t *n)
{
	uint32_t *rows = malloc(sizeof *rows);
	uint64_t next = 0;

	*n = 0;
	for (char *item = strtok(list, ","); rows != NULL && item != NULL; item = strtok(NULL, ",")) {
		char *dash = strchr(item, '-');
		uint64_t first, last;
		uint32_t *room = NULL;

		if (dash != NULL)
			*dash++ = '\0';
		if (row_of(item, &first) && row_of(dash ? dash : item, &last) &&
		    first >= next && last >= first && last - first < MAX_ROWS - *n)
			room = realloc(rows, (*n + last - first + 2) * sizeof *rows);
		if (room == NULL) {
			free(rows);
			return NULL;
		}
		rows = room;
		for (next = first; next <= last; next++)
			rows[(*n)++] = next;
	}
	return rows;
}

int words_of(const uint32_t *rows, size_t n, row_bitmap *b)
{
	size_t count = n == 0 ? 0 : rows[n - 1] / 64 + (size_t)1;
	u_quad_t *words;

	if (count > MAX_BYTES / 8) {
		fprintf(stderr, "row %lu is too high for words: use put-roaring\n", (unsigned long)rows[n - 1]);
		return 0;
	}
	words = calloc(count + 1, sizeof *words);
	for (size_t i = 0; words != NULL && i < n; i++)
		words[rows[i] / 64] |= (u_quad_t)1 << rows[i] % 64;
	b->format = BITMAP_WORDS;
	b->row_bitmap_u.words.words_val = words;
	b->row_bitmap_u.words.words_len = count;
	return words != NULL;
}

static void little(unsigned char *p, uint32_t v, int bytes)
{
	while (bytes-- > 0) {
		*p++ = v & 0xff;
		v >>= 8;
	}
}

/*
 * A container for each 65,536 rows that has any, without runs: its rows as 16-bit
 * numbers up to 4,096 of them, else as bits.
 */
int roaring_of(const uint32_t *rows, size_t n, row_bitmap *b)
{
	size_t containers = 0, body = 0, at, c = 0, i, end;
	unsigned char *p;

#define SAME_CONTAINER(i, end) \
	for (end = i; end < n && rows[end] >> 16 == rows[i] >> 16; end++)
	for (i = 0; i < n; i = end, containers++) {
		SAME_CONTAINER(i, end);
		body += end - i <= 4096 ? 2 * (end - i) : 8192;
	}
	at = 8 + 8 * containers;
	p = at + body > MAX_BYTES ? NULL : calloc(1, at + body);
	if (p == NULL) {
		fprintf(stderr, "the rows are too many for one call\n");
		return 0;
	}
	b->format = BITMAP_ROARING;
	b->row_bitmap_u.roaring.roaring_val = (char *)p;
	b->row_bitmap_u.roaring.roaring_len = at + body;

	little(p, 12346, 4);                    /* the cookie of a stream without runs */
	little(p + 4, containers, 4);
	for (i = 0; i < n; i = end, c++) {
		SAME_CONTAINER(i, end);
		little(p + 8 + 4 * c, rows[i] >> 16, 2);
		little(p + 10 + 4 * c, end - i - 1, 2);
		little(p + 8 + 4 * containers + 4 * c, at, 4);  /* where it begins */
		for (size_t k = i; k < end; k++) {
			if (end - i <= 4096)
				little(p + at + 2 * (k - i), rows[k] & 0xffff, 2);
			else
				p[at + (rows[k] & 0xffff) / 8] |= 1 << rows[k] % 8;
		}
		at += end - i <= 4096 ? 2 * (end - i) : 8192;
	}
#undef SAME_CONTAINER
	return 1;
}

static int words_rows(const row_bitmap *b, uint64_t first, row_fn *f, void *arg)
{
	for (u_int i = 0; i < b->row_bitmap_u.words.words_len; i++) {
		uint64_t word = b->row_bitmap_u.words.words_val[i];

		for (; word != 0; word &= word - 1)
			f((first / 64 + i) * 64 + __builtin_ctzll(word), arg);
	}
	return 1;
}

static uint32_t from_little(const unsigned char *p, int bytes)
{
	return bytes == 2 ? p[0] | (uint32_t)p[1] << 8 : from_little(p, 2) | from_little(p + 2, 2) << 16;
}

/* The rows of one container; its size, or 0 where it is none or is cut off. */
static size_t container_rows(const unsigned char *p, size_t left, int run, uint32_t high, uint32_t n, row_fn *f, void *arg)
{
	size_t size;

	if (run) {
		if (left < 2 || (size = 2 + 4 * (size_t)from_little(p, 2)) > left)
			return 0;
		for (const unsigned char *r = p + 2; r < p + size; r += 4) {
			uint32_t low = from_little(r, 2), last = low + from_little(r + 2, 2);

			if (last > 0xffff)
				return 0;
			for (; low <= last; low++)
				f(high | low, arg);
		}
		return size;
	}
	size = n <= 4096 ? 2 * n : 8192;
	if (size > left)
		return 0;
	for (uint32_t i = 0; n <= 4096 && i < n; i++)
		f(high | from_little(p + 2 * i, 2), arg);
	for (uint32_t low = 0; n > 4096 && low < 65536; low++)
		if (p[low / 8] >> low % 8 & 1)
			f(high | low, arg);
	return size;
}

/* With CRoaring: roaring_bitmap_portable_deserialize_safe. */
static int roaring_rows(const row_bitmap *b, row_fn *f, void *arg)
{
	const unsigned char *p = (const unsigned char *)b->row_bitmap_u.roaring.roaring_val;
	const unsigned char *runs = NULL, *heads;       /* a bit and 4 bytes each container */
	size_t len = b->row_bitmap_u.roaring.roaring_len, at = 8, size;
	uint32_t cookie, n;

	if (len < 8)
		return 0;
	cookie = from_little(p, 4);
	n = from_little(p + 4, 4);
	if ((cookie & 0xffff) == 12347) {               /* some are runs */
		n = (cookie >> 16) + 1;
		runs = p + 4;
		at = 4 + (n + 7) / 8;
	} else if (cookie != 12346 || n > 65536) {
		return 0;
	}
	heads = p + at;
	at += 4 * (size_t)n + (runs == NULL || n >= 4 ? 4 * (size_t)n : 0);     /* where each begins: not needed */
	for (uint32_t i = 0; at <= len && i < n; i++, at += size) {
		int run = runs != NULL && runs[i / 8] >> i % 8 & 1;

		size = container_rows(p + at, len - at, run, from_little(heads + 4 * i, 2) << 16,
		    from_little(heads + 4 * i + 2, 2) + 1, f, arg);
		if (size == 0)
			return 0;
	}
	return at <= len;
}

int page_rows(const row_bitmap *b, uint64_t first, row_fn *f, void *arg)
{
	switch (b->format) {
	case BITMAP_WORDS:
		return words_rows(b, first, f, arg);
	case BITMAP_ROARING:
		return roaring_rows(b, f, arg);
	default:
		return 0;
	}
}
