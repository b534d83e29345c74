/*
 * slave_client: speaks to one slave as a coordinator or a handler does, with
 * lists made by hand.
 *
 *     slave_client HOST tcp|udp WORD LIST          HANDLE_QUERY: OR LIST into WORD
 *     slave_client HOST tcp|udp coordinate LIST... COORDINATE: AND of the lists' ORs
 *
 * LIST is machine:id,machine:id... in any order, with repeats; '' is empty.
 * Exit status: 0 answered, 1 failed (why is on stderr), 2 wrong usage.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "structs.h"

static int parse_word(const char *text, uint64_t *word)
{
	char *end;

	errno = 0;
	*word = strtoull(text, &end, 0);
	return *text != '\0' && *text != '-' && *end == '\0' && errno == 0;
}

static void free_list(machine_vec_list list)
{
	while (list != NULL) {
		machine_vec_node *next = list->next;

		free(list->machine_addr);
		free(list);
		list = next;
	}
}

/* Reads machine:id,machine:id... An id follows the last colon (IPv6 has others). */
static int parse_list(const char *text, machine_vec_list *list)
{
	machine_vec_list *tail = list;
	int ok = 1;

	*list = NULL;
	while (ok && *text != '\0') {
		size_t length = strcspn(text, ",");
		char *item = strndup(text, length);
		char *colon = item == NULL ? NULL : strrchr(item, ':');
		machine_vec_node *node = calloc(1, sizeof *node);
		uint64_t id;

		ok = node != NULL && colon != NULL && parse_word(colon + 1, &id);
		if (ok) {
			node->machine_addr = strndup(item, colon - item);
			node->vector = id;
			*tail = node;
			tail = &node->next;
			ok = node->machine_addr != NULL;
		} else {
			free(node);
		}
		free(item);
		text += length;
		if (*text == ',' && *++text == '\0')
			ok = 0;                     /* a comma at the end */
	}
	if (!ok) {
		free_list(*list);
		*list = NULL;
	}
	return ok;
}

static int handle(CLIENT *clnt, uint64_t word, machine_vec_list list)
{
	handle_query_args args = { .list = list, .result = word };
	query_return_value *r = handle_query_1(&args, clnt);
	int failed = 0;

	if (r == NULL) {
		fprintf(stderr, "%s\n", clnt_sperror(clnt, "slave_client"));
		return 1;
	}
	if (*r->failed_machine != '\0') {
		fprintf(stderr, "slave_client: machine %s failed\n", r->failed_machine);
		failed = 1;
	} else {
		printf("word 0x%016" PRIx64 "\n", (uint64_t)r->vector);
	}
	clnt_freeres(clnt, (xdrproc_t)xdr_query_return_value, (caddr_t)r);
	return failed;
}

static int coordinate(CLIENT *clnt, machine_vec_list *lists, u_int count)
{
	coordinate_args args = { .ranges = { count, lists } };
	coordinate_return_value *r = coordinate_1(&args, clnt);
	u_int failed;

	if (r == NULL) {
		fprintf(stderr, "%s\n", clnt_sperror(clnt, "slave_client"));
		return 1;
	}
	failed = r->failed_machines.failed_machines_len;
	for (u_int i = 0; i < failed; i++)
		fprintf(stderr, "slave_client: machine %s failed\n",
		    r->failed_machines.failed_machines_val[i]);
	if (failed == 0)
		printf("word 0x%016" PRIx64 "\n", (uint64_t)r->vector);
	clnt_freeres(clnt, (xdrproc_t)xdr_coordinate_return_value, (caddr_t)r);
	return failed != 0;
}

static int usage(void)
{
	fprintf(stderr, "usage: slave_client HOST tcp|udp WORD machine:id,machine:id...\n"
	    "       slave_client HOST tcp|udp coordinate LIST...\n");
	return 2;
}

int main(int argc, char **argv)
{
	machine_vec_list *lists;
	uint64_t word = 0;
	int count = argc - 4, parsed = 0, status = 2, coordinating;
	CLIENT *clnt;

	if (argc < 4 || (strcmp(argv[2], "tcp") != 0 && strcmp(argv[2], "udp") != 0))
		return usage();
	coordinating = strcmp(argv[3], "coordinate") == 0;
	if (!coordinating && (count != 1 || !parse_word(argv[3], &word)))
		return usage();

	lists = calloc(count + 1, sizeof *lists);
	if (lists == NULL) {
		perror("slave_client");
		return 1;
	}
	while (parsed < count && parse_list(argv[4 + parsed], &lists[parsed]))
		parsed++;
	if (parsed < count) {
		usage();
	} else if ((clnt = clnt_create(argv[1], SLAVE_PROG, SLAVE_V1, argv[2])) == NULL) {
		clnt_pcreateerror(argv[1]);
		status = 1;
	} else {
		status = coordinating ? coordinate(clnt, lists, count) : handle(clnt, word, lists[0]);
		clnt_destroy(clnt);
	}
	while (parsed > 0)
		free_list(lists[--parsed]);
	free(lists);
	return status;
}
