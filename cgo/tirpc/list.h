/* What Go needs of rpcgen's routines for handle_query_args. */
#ifndef STARFISH_TIRPC_LIST_H
#define STARFISH_TIRPC_LIST_H

#include <stdint.h>

#include "structs.h"

handle_query_args *args_new(uint64_t word);
void args_free(handle_query_args *args);

/* Puts a node before the list; machine_addr is malloc'ed and taken over. */
void args_push(handle_query_args *args, char *machine_addr, uint64_t id);

/* Encoded size in bytes. */
unsigned args_size(handle_query_args *args);

/* Bytes written; 0: refused. */
unsigned args_encode(handle_query_args *args, char *buf, unsigned size);

/* 1: decoded; 0: refused. */
int args_decode(handle_query_args *args, char *buf, unsigned size);

/* Nanoseconds for that many rounds; -1: refused. */
int64_t time_encode(handle_query_args *args, char *buf, unsigned size, int rounds);
int64_t time_decode(char *buf, unsigned size, int rounds);

#endif
