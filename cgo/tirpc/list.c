#include <stdlib.h>
#include <time.h>

#include "list.h"

handle_query_args *args_new(uint64_t word)
{
	handle_query_args *args = calloc(1, sizeof *args);

	if (args == NULL)
		abort();
	args->result = word;
	return args;
}

void args_free(handle_query_args *args)
{
	xdr_free((xdrproc_t)xdr_handle_query_args, (char *)args);
	free(args);
}

void args_push(handle_query_args *args, char *machine_addr, uint64_t id)
{
	machine_vec_node *node = malloc(sizeof *node);

	if (node == NULL)
		abort();
	node->machine_addr = machine_addr;
	node->vector = id;
	node->next = args->list;
	args->list = node;
}

unsigned args_size(handle_query_args *args)
{
	return xdr_sizeof((xdrproc_t)xdr_handle_query_args, args);
}

unsigned args_encode(handle_query_args *args, char *buf, unsigned size)
{
	XDR xdrs;

	xdrmem_create(&xdrs, buf, size, XDR_ENCODE);
	return xdr_handle_query_args(&xdrs, args) ? XDR_GETPOS(&xdrs) : 0;
}

int args_decode(handle_query_args *args, char *buf, unsigned size)
{
	XDR xdrs;

	xdrmem_create(&xdrs, buf, size, XDR_DECODE);
	return xdr_handle_query_args(&xdrs, args);
}

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t time_encode(handle_query_args *args, char *buf, unsigned size, int rounds)
{
	int64_t begin = now();

	for (int i = 0; i < rounds; i++)
		if (args_encode(args, buf, size) == 0)
			return -1;
	return now() - begin;
}

int64_t time_decode(char *buf, unsigned size, int rounds)
{
	int64_t begin = now();

	for (int i = 0; i < rounds; i++) {
		handle_query_args args = { NULL, 0 };
		int ok = args_decode(&args, buf, size);

		xdr_free((xdrproc_t)xdr_handle_query_args, (char *)&args);
		if (!ok)
			return -1;
	}
	return now() - begin;
}
