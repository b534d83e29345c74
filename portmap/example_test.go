package portmap_test

import (
	"context"
	"fmt"
	"log"

	"starfish/portmap"
	"starfish/rpc"
)

// A portmapper on a port of its own, without a unix socket; the zero Config is
// one on 111, and SocketPath: portmap.DefaultSocket lets C programs register.
func ExampleServer() {
	srv, err := portmap.New(portmap.Config{Port: -1})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(ctx) }()
	<-srv.Ready()

	c, err := portmap.Connect(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", srv.Port()), rpc.ClientConfig{})
	if err != nil {
		log.Fatal(err)
	}
	err = c.Set(ctx, portmap.Registration{Prog: 0x20000099, Vers: 1, Netid: "tcp", Addr: portmap.WildcardUaddr("tcp", 20480)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(c.GetAddr(ctx, 0x20000099, 1, "tcp"))
	_ = c.Close() // nothing waits for it

	stop()
	fmt.Println(<-ended)
	// Output:
	// 127.0.0.1.80.0 <nil>
	// <nil>
}

// What clnt_create(host, prog, vers, "tcp") does: the portmapper of the host
// says the port. Over 127.0.0.1 it is this host's.
func ExampleDial() {
	ctx := context.Background()
	c, err := portmap.Dial(ctx, "tcp", "127.0.0.1", 0x20000099, 1, rpc.ClientConfig{})
	if err != nil {
		log.Print(err) // "program 0x20000099 version 1 is not registered with the portmapper at 127.0.0.1:111; is the server running?"
		return
	}
	defer c.Close()
	if err := c.Call(ctx, 0x20000099, 1, 0, nil, nil); err != nil {
		log.Print(err)
	}
}
