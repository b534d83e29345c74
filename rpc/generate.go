package rpc

//go:generate go run ../cmd/rpcgen -p rpc rpc_msg.x
