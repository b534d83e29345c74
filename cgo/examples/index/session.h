/*
 * session: a connection to the master, and what to say when a call failed.
 */
#ifndef SESSION_H
#define SESSION_H

#include <time.h>

#include "structs.h"

/*
 * One thread's way to the master. A CLIENT is one connection with one call at a
 * time, and no two threads may use it: each thread opens its own, and keeps it,
 * since opening costs a question to the portmapper and a connection.
 */
struct session {
	const char *host;
	time_t seconds;                 /* one call may take */
	u_int page;                     /* rows */
	row_bitmap_format format;       /* in which they come */
	CLIENT *clnt;
};

/* 0, and why on stderr, where the master cannot be reached. */
int session_open(struct session *s);
void session_close(struct session *s);

/*
 * Whether a call that ended with st is to be made again, once: its connection was
 * dead, most likely since the master was started anew, and there is another one
 * now. Every call here may be repeated: a query changes nothing, and a put that
 * happens twice leaves what it leaves once. (The second of two deletes finds no
 * such vector.)
 */
int again(struct session *s, enum clnt_stat st, int *tries);

/* Says why a call has no answer. A result that is half there can be freed. */
void no_answer(struct session *s);

/* Says what the master says of a call that it refused; text is the query or NULL. */
void refused(query_status status, const query_failure *f, const char *text);

#endif
