package portmap

import "time"

// The bounds of the portmapper: what callers can make it remember, send and do.
// docs/operations.md has the same table.
const (
	// MaxRecord bounds a call over TCP and the unix socket.
	MaxRecord = 64 << 10
	// MaxReply bounds an answer over TCP and the unix socket; see MaxListBytes.
	MaxReply = 16 << 20
	// MaxDatagram bounds an answer over UDP, as libtirpc does.
	MaxDatagram = 8800
	// MaxAmplification bounds an answer over UDP to another host, in multiples of
	// the bytes of the call: senders of forged calls gain nothing by us.
	MaxAmplification = 3

	MaxRegistrations = 65536    // registrations
	MaxListBytes     = 15 << 20 // of all of them in XDR, so that DUMP can always be answered
	MaxNetid         = 32       // bytes of a netid
	MaxUaddr         = 255      // bytes of a universal address

	// DefaultRate and DefaultBurst bound the calls of one other host (of one /64
	// for IPv6) that are answered at length or passed on, a second and at once:
	// DUMP, GETSTAT, CALLIT, BCAST, INDIRECT, and GETADDRLIST over UDP. LookupRate
	// bounds all others, a second and at once. Loopback and the unix socket are not
	// bounded so.
	DefaultRate  = 100
	DefaultBurst = 400
	LookupRate   = 10000
	// LongAnswer is the length from which an answer over a stream counts as long.
	// Of these are LongBytes given at once and LongRate a second, to all callers
	// together: callers that ask and do not take the answers would else fill the
	// memory. Lists of some two hundred registrations are shorter.
	LongAnswer = 16 << 10
	LongBytes  = 64 << 20
	LongRate   = 8 << 20

	// MaxSources is how many other hosts are told apart at a time.
	MaxSources = 8192

	// MaxStats bounds each list of GETSTAT: the entry that is there for longest
	// makes room.
	MaxStats = 128

	// MaxForwards bounds the calls that are passed on at a time, and
	// ForwardTimeout each of them.
	MaxForwards    = 64
	ForwardTimeout = 5 * time.Second
)

// What package rpc bounds for a portmapper.
const (
	maxConns        = 1024             // connections; beyond them the one that is idle for longest is closed
	maxCallsPerConn = 8                // calls at a time of one connection or UDP socket; and MaxForwards with remote calls
	idleTimeout     = 2 * time.Minute  // of a connection without calls
	stallTimeout    = 10 * time.Second // of one that stops inside a record or takes no reply
	sendBuffer      = 64 << 10         // of the kernel, for each connection: else it takes MiBs for a caller that reads nothing
)
