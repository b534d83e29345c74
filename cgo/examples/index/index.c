/*
 * index: what a database system does with Starfish, in C and with threads: it
 * puts and deletes vectors, reads answers of any size in pages, asks how the
 * cluster is, and shows where a query is wrong. Copy from here.
 *
 *     rpcgen -M -C structs.x
 *     cc $(pkg-config --cflags libtirpc) -o index index.c session.c bitmap.c dial.c \
 *         structs_clnt.c structs_xdr.c $(pkg-config --libs libtirpc) -lpthread
 *
 *     index [-w] [-p ROWS] [-t SECONDS] HOST COMMAND ...
 *
 *     put ID ROWS            stores a vector, as plain words
 *     put-roaring ID ROWS    the same in the Roaring format: for any rows
 *     delete ID              the id is unknown again
 *     query TEXT...          all rows of each answer, -p rows a page, which come
 *                            in the Roaring format, or with -w as words. - is
 *                            each line of stdin
 *     status                 the slaves, and how many vectors there are
 *     members                the ids, with who holds them
 *     threads N TEXT...      N threads ask all queries, and must agree
 *
 * ROWS are ascending, as 1,5,9-12; "" is the empty vector. -t is how long one
 * call may take, 20 s where it is not given. Exit status: 0 fine, 1 a call
 * failed (why is on stderr), 2 wrong usage.
 *
 * The stubs are those of -M: the caller brings the result. The other stubs
 * return a pointer to a static one, which threads would overwrite.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bitmap.h"
#include "session.h"

/* --- what is put ---------------------------------------------------------- */

/* Put and delete answer the same. */
static int written(struct session *s, enum clnt_stat st, put_response *r)
{
	int ok = st == RPC_SUCCESS && r->status == QUERY_OK;

	if (ok)
		printf("revision %" PRIu64 "\n", (uint64_t)r->put_response_u.revision);
	else if (st == RPC_SUCCESS)
		refused(r->status, &r->put_response_u.failure, NULL);
	else
		no_answer(s);
	xdr_free((xdrproc_t)xdr_put_response, (char *)r);
	return ok;
}

static int put(struct session *s, uint64_t id, const row_bitmap *rows)
{
	put_request request;
	put_response r;
	enum clnt_stat st;
	int tries = 0;

	memset(&request, 0, sizeof request);    /* holders: none, placement decides */
	request.id = id;
	request.rows = *rows;
	request.name = "";                      /* XDR has no NULL string */
	do {
		memset(&r, 0, sizeof r);        /* with -M a result begins as zeros */
		st = master_put_2(&request, &r, s->clnt);
	} while (again(s, st, &tries));
	return written(s, st, &r);
}

static int erase(struct session *s, uint64_t id)
{
	u_quad_t arg = id;
	put_response r;
	enum clnt_stat st;
	int tries = 0;

	do {
		memset(&r, 0, sizeof r);
		st = master_delete_2(&arg, &r, s->clnt);
	} while (again(s, st, &tries));
	return written(s, st, &r);
}

/* --- what is asked -------------------------------------------------------- */

/* What each_row hands on, and what it must know of the page. */
struct page_call {
	row_fn *f;
	void *arg;
	uint64_t rows, last;
};

static void one_row(uint64_t row, void *arg)
{
	struct page_call *page = arg;

	page->rows++;
	page->last = row;
	page->f(row, page->arg);
}

/*
 * Calls f for every row of the answer, in ascending order. Memory is bounded by
 * the page. Between two pages a vector may be put anew: what must be of one
 * moment is asked for in one page. Words are quick to use and cost 8 bytes for
 * each 64 rows from the page's first to its last: where rows lie far apart they
 * are QUERY_TOO_LARGE, and the Roaring format is not.
 */
static int each_row(struct session *s, char *text, uint64_t *count, row_fn *f, void *arg)
{
	struct page_call page = { .f = f, .arg = arg };
	query_request request;
	int ok;

	memset(&request, 0, sizeof request);
	request.text = text;
	request.format = s->format;
	request.deadline_ms = s->seconds * 1000;
	request.max_rows = s->page;
	do {
		query_response r;
		enum clnt_stat st;
		int tries = 0;

		do {
			memset(&r, 0, sizeof r);
			st = master_query_2(&request, &r, s->clnt);
		} while (again(s, st, &tries));
		ok = st == RPC_SUCCESS && r.status == QUERY_OK;
		page.rows = 0;
		if (ok) {
			const query_answer *a = &r.query_response_u.answer;

			*count = a->count;      /* of the whole answer, on each page */
			ok = page_rows(&a->rows, request.first_row, one_row, &page);
			if (!ok)
				fprintf(stderr, "index: the master sent a bitmap that is none\n");
			request.first_row = page.last + 1;
			request.seed = a->seed; /* all pages from the same copies */
		} else if (st == RPC_SUCCESS) {
			refused(r.status, &r.query_response_u.failure, text);
		} else {
			no_answer(s);
		}
		xdr_free((xdrproc_t)xdr_query_response, (char *)&r);
	} while (ok && page.rows == s->page);   /* a page that is not full is the last */
	return ok;
}

static void print_row(uint64_t row, void *any)
{
	printf("%s %" PRIu64, *(int *)any ? "" : "rows", row);
	*(int *)any = 1;
}

static int query(struct session *s, char *text)
{
	uint64_t count = 0;
	int ok, any = 0;

	if (s->clnt == NULL && !session_open(s))        /* the last call lost it */
		return 0;
	ok = each_row(s, text, &count, print_row, &any);
	if (any)
		printf("\n");
	if (ok)
		printf("count %" PRIu64 "\n", count);
	fflush(stdout);
	return ok;
}

static int query_lines(struct session *s)
{
	char *line = NULL;
	size_t room = 0;
	int ok = 1;

	while (getline(&line, &room, stdin) > 0)
		ok &= query(s, line);           /* white space at the end is fine */
	free(line);
	return ok;
}

static int status(struct session *s)
{
	static const char *const states[] = { "joining", "serving", "down" };
	cluster_status r;
	enum clnt_stat st;
	int tries = 0;

	do {
		memset(&r, 0, sizeof r);
		st = master_status_2(NULL, &r, s->clnt);
	} while (again(s, st, &tries));
	if (st != RPC_SUCCESS)
		no_answer(s);
	for (u_int i = 0; st == RPC_SUCCESS && i < r.slaves.slaves_len; i++) {
		const slave_status *v = &r.slaves.slaves_val[i];

		printf("slave %s %s", v->addr, (u_int)v->state < 3 ? states[v->state] : "?");
		if (v->priority != NULL)        /* optional data: NULL where it is absent */
			printf(" priority %d", *v->priority);
		printf(" members %" PRIu64 "%s%s\n", (uint64_t)v->members, *v->problem ? ": " : "", v->problem);
	}
	if (st == RPC_SUCCESS)
		printf("vectors %" PRIu64 " unavailable %" PRIu64 "\n", (uint64_t)r.vectors, (uint64_t)r.unavailable);
	xdr_free((xdrproc_t)xdr_cluster_status, (char *)&r);
	return st == RPC_SUCCESS;
}

static int members(struct session *s)
{
	members_request request = { .first_id = 0, .max_members = s->page };
	enum clnt_stat st;
	int more;

	do {
		members_page r;
		int tries = 0;

		do {
			memset(&r, 0, sizeof r);
			st = master_members_2(&request, &r, s->clnt);
		} while (again(s, st, &tries));
		if (st != RPC_SUCCESS)
			no_answer(s);
		for (u_int i = 0; st == RPC_SUCCESS && i < r.members.members_len; i++) {
			const member *m = &r.members.members_val[i];

			printf("%" PRIu64, (uint64_t)m->id);
			for (u_int h = 0; h < m->holders.holders_len; h++)
				printf(" %s", m->holders.holders_val[h]);
			printf("%s\n", m->pending ? " (a write is not finished)" : "");
			request.first_id = m->id + 1;
		}
		/* After the id 2^64-1 first_id is 0 again: there is no page after it. */
		more = st == RPC_SUCCESS && r.more && r.members.members_len > 0 && request.first_id != 0;
		xdr_free((xdrproc_t)xdr_members_page, (char *)&r);
	} while (more);
	return st == RPC_SUCCESS;
}

/* --- threads -------------------------------------------------------------- */

struct worker {
	pthread_t thread;
	struct session session;         /* its own, with a CLIENT of its own */
	char **texts;
	int ntexts, ok;
	uint64_t count, sum;            /* over all answers */
};

static void add_row(uint64_t row, void *sum) { *(uint64_t *)sum += row; }

static void *work(void *arg)
{
	struct worker *w = arg;

	w->ok = session_open(&w->session);
	for (int i = 0; w->ok && i < w->ntexts; i++) {
		uint64_t count = 0;

		w->ok = each_row(&w->session, w->texts[i], &count, add_row, &w->sum);
		w->count += count;
	}
	session_close(&w->session);
	return NULL;
}

static int threads(const struct session *s, int n, char **texts, int ntexts)
{
	struct worker *workers = calloc(n, sizeof *workers);
	int started, ok = workers != NULL;

	for (started = 0; ok && started < n; started++) {
		struct worker *w = &workers[started];

		w->session = *s;
		w->session.clnt = NULL;
		w->texts = texts;
		w->ntexts = ntexts;
		if (pthread_create(&w->thread, NULL, work, w) != 0)
			break;
	}
	for (int i = 0; i < started; i++) {
		pthread_join(workers[i].thread, NULL);
		ok = ok && workers[i].ok && workers[i].count == workers[0].count && workers[i].sum == workers[0].sum;
	}
	if (ok && started == n)
		printf("%d threads: rows %" PRIu64 " sum %" PRIu64 "\n", n, workers[0].count, workers[0].sum);
	free(workers);
	return ok && started == n;
}

/* --- the command line ----------------------------------------------------- */

static int number(const char *text, uint64_t max, uint64_t *v)
{
	char *end;

	if (*text < '0' || *text > '9')
		return 0;
	errno = 0;
	*v = strtoull(text, &end, 10);
	return errno == 0 && *end == '\0' && *v <= max;
}

static int usage(void)
{
	fprintf(stderr, "usage: index [-w] [-p ROWS] [-t SECONDS] HOST put|put-roaring ID ROWS | delete ID |\n"
	    "           query TEXT... | status | members | threads N TEXT...\n");
	return 2;
}

/* 0 fine, 1 failed, 2 wrong usage. */
static int put_rows(struct session *s, int roaring, uint64_t id, char *list)
{
	size_t n;
	uint32_t *rows = read_rows(list, &n);
	row_bitmap b;
	int ok;

	if (rows == NULL)
		return usage();
	memset(&b, 0, sizeof b);
	ok = roaring ? roaring_of(rows, n, &b) : words_of(rows, n, &b);
	ok = ok && put(s, id, &b);
	xdr_free((xdrproc_t)xdr_row_bitmap, (char *)&b);
	free(rows);
	return !ok;
}

static int command(struct session *s, int argc, char **argv)
{
	const char *name = argv[0];
	uint64_t v = 0;
	int ok = 1;

	if (argc == 3 && (strcmp(name, "put") == 0 || strcmp(name, "put-roaring") == 0) && number(argv[1], UINT64_MAX, &v))
		return put_rows(s, name[3] != '\0', v, argv[2]);
	if (argc == 2 && strcmp(name, "delete") == 0 && number(argv[1], UINT64_MAX, &v))
		return !erase(s, v);
	if (argc == 1 && strcmp(name, "status") == 0)
		return !status(s);
	if (argc == 1 && strcmp(name, "members") == 0)
		return !members(s);
	if (argc > 2 && strcmp(name, "threads") == 0 && number(argv[1], 1000, &v) && v > 0)
		return !threads(s, v, argv + 2, argc - 2);
	if (argc < 2 || strcmp(name, "query") != 0)
		return usage();
	for (int i = 1; i < argc; i++)
		ok &= strcmp(argv[i], "-") == 0 ? query_lines(s) : query(s, argv[i]);
	return !ok;
}

int main(int argc, char **argv)
{
	struct session s = { .seconds = 20, .page = 65536, .format = BITMAP_ROARING };
	uint64_t v;
	int opt, code;

	/* libtirpc writes to a connection that may be closed: that must not end us. */
	signal(SIGPIPE, SIG_IGN);
	while ((opt = getopt(argc, argv, "+wp:t:")) != -1) {
		if (opt == 'w') {
			s.format = BITMAP_WORDS;
			continue;
		}
		if ((opt != 'p' && opt != 't') || !number(optarg, 1000000, &v) || v == 0)
			return usage();
		if (opt == 'p')
			s.page = v;
		else
			s.seconds = v;
	}
	if (argc - optind < 2)
		return usage();
	s.host = argv[optind];
	if (!session_open(&s))
		return 1;
	code = command(&s, argc - optind - 1, argv + optind + 1);
	session_close(&s);
	return code;
}
