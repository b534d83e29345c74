// Package rpcload measures rpc beside libtirpc: real C clients (clnt_create) and
// Go clients against a server of package rpc and one that rpcgen made, all in
// processes of their own, in a namespace of its own.
//
//	make bench BENCH=Load
//
// Each call's answer is checked. The table at the end has the median and the 99th
// percentile of a call, calls a second, and what a call costs the server in
// processor time, which a busy machine spoils least.
package rpcload
