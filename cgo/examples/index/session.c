/*
 * session: a connection to the master, and what to say when a call failed.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#include "dial.h"
#include "session.h"

/* clnt_sperror and clnt_spcreateerror write into one buffer of the process. */
static pthread_mutex_t errors = PTHREAD_MUTEX_INITIALIZER;

int session_open(struct session *s)
{
	struct timeval call = { s->seconds + 5, 0 };

	s->clnt = dial(s->host, MASTER_PROG, MASTER_V2, s->seconds);
	if (s->clnt == NULL) {
		pthread_mutex_lock(&errors);
		fprintf(stderr, "%s\n", clnt_spcreateerror(s->host));
		pthread_mutex_unlock(&errors);
		return 0;
	}
	/*
	 * The stubs' own 25 s would end a longer call. Wait longer than the master
	 * works (deadline_ms): then it is the master that says what was too slow.
	 */
	clnt_control(s->clnt, CLSET_TIMEOUT, (char *)&call);
	/*
	 * The credential is AUTH_NONE (cl_auth is authnone_create()), and that is
	 * enough: who may change vectors is decided by the address.
	 */
	return 1;
}

void session_close(struct session *s)
{
	if (s->clnt != NULL)
		clnt_destroy(s->clnt);
	s->clnt = NULL;
}

int again(struct session *s, enum clnt_stat st, int *tries)
{
	if ((st != RPC_CANTSEND && st != RPC_CANTRECV) || (*tries)++ > 0)
		return 0;
	session_close(s);
	return session_open(s);
}

void no_answer(struct session *s)
{
	if (s->clnt == NULL)
		return;                         /* session_open has said it */
	pthread_mutex_lock(&errors);
	fprintf(stderr, "%s\n", clnt_sperror(s->clnt, "index"));
	pthread_mutex_unlock(&errors);
}

/* The query, and a mark under the byte (from 1) where it is wrong. */
static void show_position(const char *text, u_int position)
{
	const char *begin = text;
	int column = 0;

	while (position > 60) {                 /* a long query: what is around it */
		begin++;
		position--;
	}
	fprintf(stderr, "  ");
	for (u_int i = 0; i < 75 && begin[i] != '\0'; i++) {
		unsigned char c = begin[i];

		fputc(c < ' ' ? ' ' : c, stderr);
		if (i + 1 < position && (c & 0xc0) != 0x80)     /* UTF-8: one column */
			column++;
	}
	fprintf(stderr, "\n  %*s^\n", column, "");
}

void refused(query_status status, const query_failure *f, const char *text)
{
	pthread_mutex_lock(&errors);
	fprintf(stderr, "index: %s\n", f->message);
	if (status == QUERY_SYNTAX && text != NULL && f->position > 0 && f->position <= strlen(text) + 1)
		show_position(text, f->position);
	for (u_int i = 0; i < f->failed_machines.failed_machines_len; i++)
		fprintf(stderr, "  failed: %s\n", f->failed_machines.failed_machines_val[i]);
	if (f->vectors_total > f->vectors.vectors_len)  /* ids are sent up to a bound */
		fprintf(stderr, "  vectors: %" PRIu64 "\n", (uint64_t)f->vectors_total);
	pthread_mutex_unlock(&errors);
}
