// Package client is a Go client of a running cluster: MASTER_PROG version 2,
// found through the portmapper of the master's host.
//
//	c, err := client.Dial(ctx, "127.0.0.1")
//	_, err = c.Put(ctx, 7, vector.New(1, 5, 9), client.PutOptions{})
//	a, err := c.Query(ctx, "R:0-3&7", client.QueryOptions{})
//	fmt.Println(a.Count, a.Rows.Rows(0, 10))
//
// A call that the master refused is an *Error, which errors.Is compares with
// the sentinels of this package; one that brought no answer is a *CallError. A Client may be used by many goroutines: their
// calls share one connection and are answered as they are done.
package client

import (
	"context"
	"fmt"
	"math"
	"net"
	"time"

	"starfish/portmap"
	"starfish/rows"
	"starfish/rpc"
	"starfish/structs"
	"starfish/vector"
)

// Client is a connection to one master.
type Client struct {
	conn   *rpc.Client
	master *structs.MasterProgMasterV2Client
}

// Dial connects to the master of host, a name or an address without a port: the
// portmapper there knows the port. An error is an *UnreachableError.
func Dial(ctx context.Context, host string) (*Client, error) {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return nil, &UnreachableError{Host: host, Err: errHostPort}
	}
	conn, err := portmap.Dial(ctx, "tcp", host, structs.MASTER_PROG, structs.MASTER_V2, rpc.ClientConfig{})
	if err != nil {
		return nil, &UnreachableError{Host: host, Err: err}
	}
	return &Client{conn: conn, master: structs.NewMasterProgMasterV2Client(conn)}, nil
}

// Close ends the connection; calls in flight fail.
func (c *Client) Close() error { return c.conn.Close() }

// QueryOptions is how a query runs and how its answer travels.
type QueryOptions struct {
	CountOnly bool          // the count and no rows
	Words     bool          // rows as plain words instead of the roaring format
	Deadline  time.Duration // 0: the master's default, 20 s
	Seed      uint64        // replays the chance of an earlier query; 0: the master draws one
	FirstRow  uint64        // a page of the answer: rows from here on,
	MaxRows   uint64        // at most so many; 0: all
}

func (o QueryOptions) request(text string) structs.QueryRequest {
	r := structs.QueryRequest{
		Text:     structs.QueryText(text),
		Format:   structs.BITMAP_ROARING,
		Seed:     o.Seed,
		FirstRow: o.FirstRow,
		MaxRows:  o.MaxRows,
	}
	switch {
	case o.CountOnly:
		r.Format = structs.BITMAP_NONE
	case o.Words:
		r.Format = structs.BITMAP_WORDS
	}
	if o.Deadline > 0 {
		ms := o.Deadline / time.Millisecond
		if o.Deadline%time.Millisecond > 0 {
			ms++ // 1 ns of time left must not become "the default"
		}
		r.DeadlineMs = uint32(min(ms, math.MaxUint32))
	}
	return r
}

// onTheWay is what a call may take besides its deadline.
const onTheWay = 5 * time.Second

// within bounds a call whose ctx has no end by its deadline, so that a long one
// is not cut off by what a call may take as a rule.
func (o QueryOptions) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, bound := ctx.Deadline(); bound || o.Deadline <= 0 || o.Deadline > math.MaxInt64-onTheWay {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, o.Deadline+onTheWay)
}

// Answer is the complete answer to a query.
type Answer struct {
	Count uint64         // of the whole answer, also where Rows is a page of it
	Rows  *vector.Bitmap // nil with CountOnly
	Seed  uint64         // replays this query's choice among equal holders
}

// Query runs a query such as "P:7" or "R:0-3&10-14".
func (c *Client) Query(ctx context.Context, text string, o QueryOptions) (Answer, error) {
	if err := checkText(text); err != nil {
		return Answer{}, err
	}
	ctx, cancel := o.within(ctx)
	defer cancel()
	res, err := c.master.MasterQuery(ctx, o.request(text))
	if err != nil {
		return Answer{}, &CallError{"query", err}
	}
	if res.Status != structs.QUERY_OK {
		return Answer{}, refused(res.Status, res.Failure)
	}
	a := Answer{Count: res.Answer.Count, Seed: res.Answer.Seed}
	if o.CountOnly {
		return a, nil
	}
	if a.Rows, err = rows.DecodeFrom(&res.Answer.Rows, o.FirstRow); err != nil {
		return Answer{}, fmt.Errorf("client: the rows of the answer: %w", err)
	}
	return a, nil
}

// checkText refuses a query that no call carries, as the master would.
func checkText(text string) error {
	if len(text) <= structs.MAX_QUERY_TEXT {
		return nil
	}
	return refused(structs.QUERY_SYNTAX, structs.QueryFailure{
		Message:  fmt.Sprintf("query: the text has %d bytes, at most %d are allowed: ask for ranges, or in several queries", len(text), structs.MAX_QUERY_TEXT),
		Position: structs.MAX_QUERY_TEXT + 1,
	})
}

// Explain tells how the query would run: which slave each vector comes from.
func (c *Client) Explain(ctx context.Context, text string, o QueryOptions) (structs.Explanation, error) {
	if err := checkText(text); err != nil {
		return structs.Explanation{}, err
	}
	ctx, cancel := o.within(ctx)
	defer cancel()
	res, err := c.master.MasterExplain(ctx, o.request(text))
	if err != nil {
		return structs.Explanation{}, &CallError{"explain", err}
	}
	if res.Status != structs.QUERY_OK {
		return structs.Explanation{}, refused(res.Status, res.Failure)
	}
	return res.Plan, nil
}

// PutOptions is what a vector may be given besides its rows.
type PutOptions struct {
	Name    string   // ""; LEVEL=MEMBER is for later, and refused by this release
	Holders []string // pins the vector to these slaves; empty: placement decides
}

// Put stores the vector id, replacing what it was, and returns its revision.
// It returns when every holder has it on disk; after an error the put may or
// may not have happened.
func (c *Client) Put(ctx context.Context, id uint64, b *vector.Bitmap, o PutOptions) (uint64, error) {
	if b == nil {
		return 0, fmt.Errorf("client: put %d: the bitmap is nil; vector.New() is the empty one", id)
	}
	rb, err := rows.Encode(b, structs.BITMAP_ROARING)
	if err != nil {
		return 0, fmt.Errorf("client: put %d: %w", id, err)
	}
	req := structs.PutRequest{Id: id, Rows: rb, Name: o.Name}
	for _, h := range o.Holders {
		req.Holders = append(req.Holders, structs.MachineName(h))
	}
	res, err := c.master.MasterPut(ctx, req)
	return revision("put", id, res, err)
}

// Delete makes id an unknown vector again.
func (c *Client) Delete(ctx context.Context, id uint64) (uint64, error) {
	res, err := c.master.MasterDelete(ctx, id)
	return revision("delete", id, res, err)
}

func revision(op string, id uint64, res structs.PutResponse, err error) (uint64, error) {
	if err != nil {
		return 0, &CallError{fmt.Sprintf("%s %d", op, id), err}
	}
	if res.Status != structs.QUERY_OK {
		return 0, refused(res.Status, res.Failure)
	}
	return res.Revision, nil
}

// Status tells the state of the cluster and of each slave.
func (c *Client) Status(ctx context.Context) (structs.ClusterStatus, error) {
	res, err := c.master.MasterStatus(ctx)
	if err != nil {
		return structs.ClusterStatus{}, &CallError{"status", err}
	}
	return res, nil
}

// Members calls f for every known vector from id first on, in ascending order,
// a page at a time, until f returns false.
func (c *Client) Members(ctx context.Context, first uint64, f func(structs.Member) bool) error {
	for {
		page, err := c.master.MasterMembers(ctx, structs.MembersRequest{FirstId: first})
		if err != nil {
			return &CallError{"members", err}
		}
		for _, m := range page.Members {
			if !f(m) {
				return nil
			}
		}
		if !page.More || len(page.Members) == 0 {
			return nil
		}
		if first = page.Members[len(page.Members)-1].Id + 1; first == 0 {
			return nil // that was the last id there can be
		}
	}
}

// Join makes a slave that runs a member of the cluster.
func (c *Client) Join(ctx context.Context, req structs.JoinRequest) (structs.JoinAnswer, error) {
	res, err := c.master.MasterJoin(ctx, req)
	if err != nil {
		return structs.JoinAnswer{}, &CallError{fmt.Sprintf("join %s", req.Addr), err}
	}
	if res.Status != structs.QUERY_OK {
		return structs.JoinAnswer{}, refused(res.Status, res.Failure)
	}
	return res.Answer, nil
}

// Remove takes a C handler out of the cluster, or a slave that never served.
// Vectors that nobody else holds are forgotten with it where that is asked for,
// else they are the reason of an error.
func (c *Client) Remove(ctx context.Context, req structs.RemoveChange) (structs.ChangeAnswer, error) {
	res, err := c.master.MasterChange(ctx, structs.ChangeRequest{Kind: structs.CHANGE_REMOVE, Remove: req})
	if err != nil {
		return structs.ChangeAnswer{}, &CallError{fmt.Sprintf("remove %s", req.Addr), err}
	}
	if res.Status != structs.QUERY_OK {
		return structs.ChangeAnswer{}, refused(res.Status, res.Failure)
	}
	return res.Answer, nil
}
