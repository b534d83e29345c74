/*
 * page_rows: has cgo/examples/index/bitmap.c read Roaring streams from stdin, each
 * after its length in 4 bytes, big-endian; prints for each "rows N sum S", or
 * "none" where it is not a stream.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bitmap.h"

static uint64_t count, sum;

static void add(uint64_t row, void *unused)
{
	(void)unused;
	count++;
	sum += row;
}

int main(void)
{
	unsigned char n[4];

	while (fread(n, 1, 4, stdin) == 4) {
		u_int len = (u_int)n[0] << 24 | n[1] << 16 | n[2] << 8 | n[3];
		char *bytes = malloc(len ? len : 1);    /* no byte more: valgrind sees a read beyond */
		row_bitmap b = { .format = BITMAP_ROARING };

		if (bytes == NULL || fread(bytes, 1, len, stdin) != len)
			return 1;
		b.row_bitmap_u.roaring.roaring_val = bytes;
		b.row_bitmap_u.roaring.roaring_len = len;
		count = sum = 0;
		if (page_rows(&b, 0, add, NULL))
			printf("rows %" PRIu64 " sum %" PRIu64 "\n", count, sum);
		else
			printf("none\n");
		free(bytes);
	}
	return 0;
}
