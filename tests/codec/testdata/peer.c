/*
 * The C side of the differential test: reads values on its standard input,
 * decodes each with the routine that rpcgen wrote, encodes what it got and
 * writes that. KINDS is the table of routines, made by the test.
 *
 *   in:  index of the kind, length, bytes
 *   out: length, bytes; length -1: refused, -2: bytes were left, -3: not encoded
 *
 * Numbers are of the host's order, 4 bytes. Index 2^32-1 asks for the answers so far.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <rpc/rpc.h>

#include HEADER

static const struct {
	xdrproc_t routine;
	size_t size;
} kinds[] = { KINDS };

static char out[1 << 20];

static int32_t through(uint32_t kind, char *in, uint32_t len)
{
	void *value = calloc(1, kinds[kind].size);
	int32_t result = -1;
	XDR xdrs;

	if (value == NULL)
		abort();
	xdrmem_create(&xdrs, in, len, XDR_DECODE);
	if (kinds[kind].routine(&xdrs, value)) {
		result = -2;
		if (xdr_getpos(&xdrs) == len) {
			xdrmem_create(&xdrs, out, sizeof out, XDR_ENCODE);
			result = kinds[kind].routine(&xdrs, value) ? (int32_t)xdr_getpos(&xdrs) : -3;
		}
	}
	xdr_free(kinds[kind].routine, value);
	free(value);
	return result;
}

int main(void)
{
	/* A damaged count makes C allocate and walk over what it says. */
	const struct rlimit little = { 8 << 20, 8 << 20 };
	uint32_t head[2];

	if (setrlimit(RLIMIT_DATA, &little) != 0)
		return 1;
	while (fread(head, sizeof head, 1, stdin) == 1) {
		char *in;
		int32_t len;

		if (head[0] == UINT32_MAX) {
			fflush(stdout);
			continue;
		}
		in = malloc(head[1] + 1);

		if (in == NULL || fread(in, 1, head[1], stdin) != head[1])
			return 1;
		len = through(head[0], in, head[1]);
		free(in);
		fwrite(&len, sizeof len, 1, stdout);
		if (len > 0)
			fwrite(out, 1, len, stdout);
	}
	return 0;
}
