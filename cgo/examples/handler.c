/*
 * handler: a slave in C that holds a few one-word vectors. It ORs them into
 * the word that comes along the chain and passes the rest of the list on.
 *
 *     rpcgen -C -DHANDLER_ONLY -m -o structs_svc.c structs.x   (-m: main is ours)
 *     rpcgen -C -DHANDLER_ONLY -l -o structs_clnt.c structs.x  (likewise -h, -c)
 *
 *     handler ADDR id=word,id=word...
 *
 * ADDR is the machine_addr under which the cluster knows this host. It joins
 * with `starfish join ADDR --v1 --ids ...`. Prints "ready" when it can be called.
 */
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <rpc/pmap_clnt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dial.h"
#include "structs.h"

#define HOP_TIMEOUT 1           /* seconds, for each machine that is left */

struct vector {
	uint64_t id, word;
};

static const char *self;        /* our machine_addr */
static struct vector *vectors;
static size_t vector_count;

/* The dispatcher that rpcgen -m writes. */
extern void slave_prog_1(struct svc_req *, SVCXPRT *);

static const struct vector *find(uint64_t id)
{
	for (size_t i = 0; i < vector_count; i++)
		if (vectors[i].id == id)
			return &vectors[i];
	return NULL;
}

/* What to wait for the rest: a hop for each machine that works on it. */
static struct timeval patience(const machine_vec_node *rest)
{
	struct timeval wait = { HOP_TIMEOUT, 0 };

	for (; rest->next != NULL; rest = rest->next)
		if (strcmp(rest->machine_addr, rest->next->machine_addr) != 0)
			wait.tv_sec += HOP_TIMEOUT;
	return wait;
}

/*
 * Calls the machine at the head of args->list. What it answers, a deeper
 * failure too, is the answer. It is blamed only when the call itself fails.
 * 0: it has answered SYSTEM_ERR, which blames nobody.
 */
static int pass_on(handle_query_args *args, query_return_value *answer)
{
	char *next = args->list->machine_addr;
	struct timeval wait = patience(args->list);
	CLIENT *clnt = dial(next, SLAVE_PROG, SLAVE_V1, wait.tv_sec); /* why not clnt_create: see dial.c */
	query_return_value *r = NULL;
	struct rpc_err why = { .re_status = RPC_FAILED };

	if (clnt != NULL) {
		clnt_control(clnt, CLSET_TIMEOUT, (char *)&wait);
		r = handle_query_1(args, clnt);
		clnt_geterr(clnt, &why);
		clnt_destroy(clnt);
	}
	if (r != NULL) {
		*answer = *r;           /* its failed_machine is ours to free now */
		return 1;
	}
	if (why.re_status == RPC_SYSTEMERROR)
		return 0;
	answer->vector = 0;
	answer->failed_machine = strdup(next);
	return answer->failed_machine != NULL;
}

/*
 * Moves our own nodes from the list to *mine, wherever they stand: one that
 * stayed behind would come back to us while we wait for the next machine.
 * Returns the link at the end of what is left.
 */
static machine_vec_list *take_mine(machine_vec_list *link, machine_vec_list *mine)
{
	while (*link != NULL) {
		machine_vec_node *node = *link;

		if (strcmp(node->machine_addr, self) == 0) {
			*link = node->next;
			node->next = *mine;
			*mine = node;
		} else {
			link = &node->next;
		}
	}
	return link;
}

query_return_value *handle_query_1_svc(handle_query_args *args, struct svc_req *req)
{
	static query_return_value answer;       /* is sent after we return ... */
	machine_vec_list mine = NULL, *end;
	int ok = 1, lacking = 0;

	/* ... so what it points to is freed at the next call. */
	xdr_free((xdrproc_t)xdr_query_return_value, (char *)&answer);
	memset(&answer, 0, sizeof answer);

	end = take_mine(&args->list, &mine);
	for (machine_vec_node *node = mine; node != NULL; node = node->next) {
		const struct vector *v = find(node->vector);

		if (v != NULL)
			args->result |= v->word;
		else
			lacking = 1;
	}

	if (!lacking && args->list != NULL) {
		ok = pass_on(args, &answer);
	} else {
		answer.vector = lacking ? 0 : args->result;
		answer.failed_machine = strdup(lacking ? self : "");    /* never NULL */
		ok = answer.failed_machine != NULL;
	}
	*end = mine;                    /* whole again: the dispatcher frees the list */
	if (ok)
		return &answer;
	svcerr_systemerr(req->rq_xprt);
	return NULL;                    /* NULL: the dispatcher sends nothing more */
}

/* Reads id=word,id=word... */
static int load(char *text)
{
	for (char *item = strtok(text, ","); item != NULL; item = strtok(NULL, ",")) {
		struct vector v, *more;
		char *end;

		errno = 0;
		v.id = strtoull(item, &end, 0);
		if (end == item || *end != '=')
			return 0;
		item = end + 1;
		v.word = strtoull(item, &end, 0);
		if (end == item || *end != '\0' || errno != 0)
			return 0;
		more = realloc(vectors, (vector_count + 1) * sizeof *vectors);
		if (more == NULL)
			return 0;
		vectors = more;
		vectors[vector_count++] = v;
	}
	return 1;
}

static void serve_on(SVCXPRT *transport, rpcprot_t protocol, const char *name)
{
	if (transport == NULL ||
	    !svc_register(transport, SLAVE_PROG, SLAVE_V1, slave_prog_1, protocol)) {
		fprintf(stderr, "handler: cannot serve or register %s: does a portmapper run here?\n", name);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	if (argc != 3 || !load(argv[2])) {
		fprintf(stderr, "usage: handler ADDR id=word,id=word...\n");
		return 2;
	}
	self = argv[1];
	signal(SIGPIPE, SIG_IGN);       /* a caller may be gone when we answer */

	pmap_unset(SLAVE_PROG, SLAVE_V1);       /* what an earlier run left behind */
	serve_on(svcudp_create(RPC_ANYSOCK), IPPROTO_UDP, "udp");
	serve_on(svctcp_create(RPC_ANYSOCK, 0, 0), IPPROTO_TCP, "tcp");

	printf("ready\n");
	fflush(stdout);
	svc_run();
	return 1;
}
