/*
 * client: asks a Starfish master, over Sun RPC, in version 1 or 2.
 *
 * Nothing here is Starfish's but structs.x:
 *
 *     rpcgen -C structs.x
 *     cc $(pkg-config --cflags libtirpc) -o client client.c \
 *         structs_clnt.c structs_xdr.c $(pkg-config --libs libtirpc)
 *
 *     client HOST 1|2 tcp|udp QUERY...
 *
 * The queries are asked one after another over one CLIENT. Exit status: 0 all
 * answered, 1 one failed (why is on stderr), 2 wrong usage.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "structs.h"

/* Rows in one page of a version 2 answer; in words, 8 KiB where they are dense. */
#define PAGE_ROWS 65536

/* Version 1: the answer is one 64-bit word, bit i is row i. */
static int ask_version_1(CLIENT *clnt, char *text)
{
	query_return_value *r = master_query_1(&text, clnt);
	int failed = 0;

	if (r == NULL) {                        /* no answer: r cannot say why, clnt can */
		fprintf(stderr, "%s\n", clnt_sperror(clnt, "client"));
		return 1;
	}
	if (*r->failed_machine != '\0') {       /* "" stands for NULL on the wire */
		fprintf(stderr, "client: machine %s failed\n", r->failed_machine);
		failed = 1;
	} else {
		printf("word 0x%016" PRIx64 "\nrows", (uint64_t)r->vector);
		for (int row = 0; row < 64; row++)
			if (r->vector >> row & 1)
				printf(" %d", row);
		printf("\n");
	}
	clnt_freeres(clnt, (xdrproc_t)xdr_query_return_value, (caddr_t)r);
	return failed;
}

static void print_failure(const query_failure *f)
{
	fprintf(stderr, "client: %s", f->message);
	if (f->position != 0)
		fprintf(stderr, " (at byte %u)", f->position);
	for (u_int i = 0; i < f->failed_machines.failed_machines_len; i++)
		fprintf(stderr, "%s %s", i == 0 ? "; failed:" : ",",
		    f->failed_machines.failed_machines_val[i]);
	fprintf(stderr, "\n");
}

/*
 * Prints the rows of the page that begins at row first; *next becomes the first
 * row after them. A page of words begins at the word of its first row.
 */
static uint64_t print_words(const row_bitmap *rows, uint64_t first, uint64_t *next)
{
	uint64_t printed = 0;

	if (rows->format != BITMAP_WORDS)
		return 0;
	for (u_int i = 0; i < rows->row_bitmap_u.words.words_len; i++) {
		uint64_t word = rows->row_bitmap_u.words.words_val[i];

		for (int bit = 0; bit < 64; bit++) {
			if ((word >> bit & 1) == 0)
				continue;
			*next = (first / 64 + i) * 64 + bit + 1;
			printf(" %" PRIu64, *next - 1);
			printed++;
		}
	}
	return printed;
}

/* Version 2: any number of rows, asked for in pages, and failures that say why. */
static int ask_version_2(CLIENT *clnt, char *text)
{
	query_request request;
	uint64_t printed = 0, count = 0, next = 0;
	int failed = 0;

	memset(&request, 0, sizeof request);
	request.text = text;
	request.format = BITMAP_WORDS;
	request.max_rows = PAGE_ROWS;
	do {
		query_response *r = master_query_2(&request, clnt);
		uint64_t page = 0;

		if (r == NULL) {
			fprintf(stderr, "%s%s\n", printed > 0 ? "\n" : "",
			    clnt_sperror(clnt, "client"));
			return 1;
		}
		if (r->status != QUERY_OK) {
			if (printed > 0)
				printf("\n");
			print_failure(&r->query_response_u.failure);
			failed = 1;
		} else {
			const query_answer *a = &r->query_response_u.answer;

			if (request.first_row == 0)
				printf("count %" PRIu64 "\nrows", (uint64_t)a->count);
			count = a->count;
			page = print_words(&a->rows, request.first_row, &next);
			printed += page;
			request.first_row = next;       /* the next page begins here ... */
			request.seed = a->seed;         /* ... from the same copies */
		}
		clnt_freeres(clnt, (xdrproc_t)xdr_query_response, (caddr_t)r);
		if (page == 0)
			break;
	} while (printed < count);
	if (!failed)
		printf("\n");
	return failed;
}

static int usage(void)
{
	fprintf(stderr, "usage: client HOST 1|2 tcp|udp QUERY...\n");
	return 2;
}

int main(int argc, char **argv)
{
	CLIENT *clnt;
	int failed = 0;

	if (argc < 5 || (strcmp(argv[2], "1") != 0 && strcmp(argv[2], "2") != 0) ||
	    (strcmp(argv[3], "tcp") != 0 && strcmp(argv[3], "udp") != 0))
		return usage();

	clnt = clnt_create(argv[1], MASTER_PROG, *argv[2] == '1' ? MASTER_V1 : MASTER_V2, argv[3]);
	if (clnt == NULL) {
		clnt_pcreateerror(argv[1]);
		return 1;
	}
	for (int i = 4; i < argc; i++)
		failed |= *argv[2] == '1' ? ask_version_1(clnt, argv[i]) : ask_version_2(clnt, argv[i]);
	clnt_destroy(clnt);
	return failed;
}
