package portmap

//go:generate go run ../cmd/rpcgen -p portmap pmap_prot.x
//go:generate go run ../cmd/rpcgen -p portmap rpcb_prot.x
