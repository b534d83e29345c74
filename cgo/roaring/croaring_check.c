/*
 * croaring_check: what CRoaring makes of a portable 32-bit Roaring stream.
 *
 *     croaring_check read < STREAM         prints "count N sum S"
 *     croaring_check rows < STREAM         prints the rows, one a line
 *     croaring_check write [--run] < ROWS  rows, one a line, to a stream;
 *                                          --run: with run containers
 *
 * Exit status: 0 fine, 1 not a stream or not a row, 2 wrong usage.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <roaring/roaring.h>

/* All of stdin; NULL when there is no memory for it. */
static char *read_all(size_t *length)
{
	size_t room = 1 << 16;
	char *data = malloc(room);

	*length = 0;
	while (data != NULL) {
		size_t n = fread(data + *length, 1, room - *length, stdin);
		char *more;

		if (n == 0)
			return data;
		*length += n;
		if (*length < room)
			continue;
		more = realloc(data, room *= 2);
		if (more == NULL)
			free(data);
		data = more;
	}
	return NULL;
}

static bool add(uint32_t row, void *sum)
{
	*(uint64_t *)sum += row;
	return true;
}

static bool print(uint32_t row, void *unused)
{
	(void)unused;
	printf("%" PRIu32 "\n", row);
	return true;
}

static int read_stream(int rows)
{
	size_t length;
	char *data = read_all(&length);
	roaring_bitmap_t *r = NULL;
	uint64_t sum = 0;

	/* A stream with bytes behind its end is not one either. */
	if (data != NULL && roaring_bitmap_portable_deserialize_size(data, length) == length)
		r = roaring_bitmap_portable_deserialize_safe(data, length);
	free(data);
	if (r == NULL) {
		fprintf(stderr, "croaring_check: not a portable Roaring stream\n");
		return 1;
	}
	if (rows) {
		roaring_iterate(r, print, NULL);
	} else {
		roaring_iterate(r, add, &sum);
		printf("count %" PRIu64 " sum %" PRIu64 "\n", roaring_bitmap_get_cardinality(r), sum);
	}
	roaring_bitmap_free(r);
	return 0;
}

static int write_stream(int run)
{
	roaring_bitmap_t *r = roaring_bitmap_create();
	unsigned long long row;
	int got, status = 1;
	size_t length;
	char *data;

	while ((got = scanf("%llu", &row)) == 1 && row <= UINT32_MAX)
		roaring_bitmap_add(r, (uint32_t)row);
	if (got != EOF) {
		fprintf(stderr, "croaring_check: a row is a number below 2^32\n");
	} else {
		if (run)
			roaring_bitmap_run_optimize(r);
		length = roaring_bitmap_portable_size_in_bytes(r);
		data = malloc(length);
		if (data != NULL && roaring_bitmap_portable_serialize(r, data) == length &&
		    fwrite(data, 1, length, stdout) == length && fflush(stdout) == 0)
			status = 0;
		free(data);
	}
	roaring_bitmap_free(r);
	return status;
}

int main(int argc, char **argv)
{
	int run = argc == 3 && strcmp(argv[2], "--run") == 0;

	if (argc == 2 && strcmp(argv[1], "read") == 0)
		return read_stream(0);
	if (argc == 2 && strcmp(argv[1], "rows") == 0)
		return read_stream(1);
	if ((argc == 2 || run) && strcmp(argv[1], "write") == 0)
		return write_stream(run);
	fprintf(stderr, "usage: croaring_check read|rows < STREAM\n"
	    "       croaring_check write [--run] < ROWS\n");
	return 2;
}
