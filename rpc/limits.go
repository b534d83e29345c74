package rpc

import "time"

// The bounds of this package, as defaults of ServerConfig and ClientConfig. A
// length is compared with them, and with the bytes that are really there, before
// anything is allocated. What the protocol itself bounds (MAX_AUTH_BYTES,
// MAX_MACHINE_NAME, MAX_GIDS) stands in rpc_msg.x.
const (
	DefaultMaxRecord       = 64 << 20  // bytes of one record, its fragments together
	DefaultMaxBytes        = 256 << 20 // of long records that are read or run, and of replies that wait to be taken
	DefaultMaxConns        = 4096      // stream connections of a server
	DefaultMaxCalls        = 4096      // calls that a server runs at once
	DefaultMaxCallsPerConn = 256       // of them, of one connection

	DefaultCacheTime        = time.Minute // a UDP call that is sent again is answered from memory; C clients give up after 25 s
	DefaultMaxCachedReplies = 16384
	DefaultMaxCachedBytes   = 4 << 20

	DefaultIdleTimeout  = time.Hour        // a connection without calls; C clients keep theirs for long and do not dial again
	DefaultStallTimeout = 30 * time.Second // a record of which no more arrives, a reply of which no more is taken

	DefaultCallTimeout   = 25 * time.Second // a call whose context has no deadline; what C stubs use
	DefaultRetransmit    = time.Second      // first wait before a UDP call is sent again; each next one is twice as long
	DefaultMaxRetransmit = 8 * time.Second  // at most

	DefaultPoolSize    = 4                      // connections of a Pool
	DefaultPoolPerConn = 64                     // calls in flight on each before there is another one
	DefaultDialBackoff = 100 * time.Millisecond // after a dial that failed
	MaxDialBackoff     = 5 * time.Second        // after many
)

// Bounds that nobody needs to change.
const (
	maxEmptyFragments = 64          // fragments of no bytes in one record
	maxDatagram       = 65535       // bytes of a UDP call
	readBuffer        = 8 << 10     // of a stream connection; longer records have a buffer of their own
	minGrow           = 64 << 10    // of a record's buffer, which then doubles with the bytes that arrive
	maxPooled         = 64 << 10    // a longer buffer is left to the garbage collector
	maxCoalesce       = 64 << 10    // messages that are written together
	maxWrite          = 256 << 10   // bytes that must be taken within one StallTimeout
	minArrival        = 64 << 10    // bytes of a record that must come within one StallTimeout, or its end
	shedTime          = time.Second // without progress before somebody loses what he holds
	maxTries          = 3           // of a call by a Pool
	maxProbeReply     = 1 << 10     // of a server that is asked for TLS
	lookoutTime       = time.Millisecond
	longCall          = 50 * time.Microsecond // calls behind it on its connection should not wait for its end
	waryCalls         = 16                    // calls after a long one that are taken for long, too
	minAcceptBackoff  = 5 * time.Millisecond
	maxAcceptBackoff  = time.Second
)
