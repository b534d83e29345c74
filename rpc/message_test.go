package rpc

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/xdr"
)

// RFC 5531 sections 8 and 9: what a server reads.
func TestReadCall(t *testing.T) {
	const head = "11223344 00000000 00000002 20000099 00000001 00000005 "
	auth400 := fmt.Sprintf("00000001 00000190 %0800x ", 0)
	for _, c := range []struct {
		name, hex string
		err       error // nil: a call
		rest      int   // bytes of arguments
	}{
		{"NoArguments", head + "00000000 00000000 00000000 00000000", nil, 0},
		{"Arguments", head + "00000000 00000000 00000000 00000000 00000007 00000008", nil, 8},
		{"CredentialOf400", head + auth400 + "00000000 00000000", nil, 0},
		{"CredentialPadded", head + "00000000 00000005 61626364 65 ffffff 00000000 00000000", nil, 0},
		{"VerifierWithBody", head + "00000000 00000000 00000000 00000004 61626364", nil, 0},
		{"CredentialOver400", head + "00000001 00000191", AuthError(AUTH_BADCRED), 0},
		{"CredentialHuge", head + "00000001 ffffffff", AuthError(AUTH_BADCRED), 0},
		{"VerifierOver400", head + "00000000 00000000 00000000 00000191", AuthError(AUTH_BADVERF), 0},
		{"CredentialCut", head + "00000001 00000008 61626364", errNotCall, 0},
		{"VerifierCut", head + "00000000 00000000 00000000", errNotCall, 0},
		{"NoCredential", head, errNotCall, 0},
		{"RPCVersion3", "11223344 00000000 00000003", ErrRPCMismatch, 0},
		{"NoRPCVersion", "11223344 00000000", errNotCall, 0},
		{"Reply", "11223344 00000001 00000000 00000000 00000000 00000000", errNotCall, 0},
		{"NeitherCallNorReply", "11223344 00000002 00000002", errNotCall, 0},
		{"Empty", "", errNotCall, 0},
		{"ThreeBytes", "112233", errNotCall, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := xdr.NewDecoder(unhex(t, c.hex))
			var call Call
			err := readCall(d, &call)
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.rest, d.Len())
			require.Equal(t, []uint32{0x11223344, testProg, 1, 5}, []uint32{call.XID, call.Prog, call.Vers, call.Proc})
		})
	}
}

// allStatuses are all the ways to refuse a call.
func allStatuses() (all []*ReplyError) {
	for s := PROG_UNAVAIL; s <= SYSTEM_ERR; s++ {
		e := &ReplyError{AcceptStat: s}
		if s == PROG_MISMATCH {
			e.Low, e.High = 3, 9
		}
		all = append(all, e)
	}
	for s := AUTH_BADCRED; s <= RPCSEC_GSS_CTXPROBLEM; s++ {
		all = append(all, AuthError(s).(*ReplyError))
	}
	return append(all, &ReplyError{Stat: MSG_DENIED, RejectStat: RPC_MISMATCH, Low: 2, High: 2})
}

// What the server writes, the client reads, and nothing is the same as another.
func TestRefusals(t *testing.T) {
	for _, e := range allStatuses() {
		t.Run(e.Error(), func(t *testing.T) {
			b := appendRefusal(nil, 7, OpaqueAuth{}, e)
			d := xdr.NewDecoder(b)
			err := readReply(d, nil)
			require.Zero(t, d.Len())
			var got *ReplyError
			require.ErrorAs(t, err, &got)
			require.True(t, got.remote)
			got.remote = false
			require.Equal(t, e, got)
			for _, other := range allStatuses() {
				require.Equal(t, e.Error() == other.Error(), errors.Is(err, other), "%v", other)
			}
			require.Equal(t, e.RejectStat == AUTH_ERROR, errors.Is(err, ErrAuth))
		})
	}
	require.Equal(t, unhex(t, "00000007 00000001 00000000 00000000 00000000 00000005"),
		appendRefusal(nil, 7, OpaqueAuth{}, &ReplyError{AcceptStat: 99}), "a status that does not exist")
}

// RFC 5531 section 9: what a client reads.
func TestReadReply(t *testing.T) {
	const accepted = "11223344 00000001 00000000 "
	for _, c := range []struct {
		name, hex string
		err       error
		rest      int
	}{
		{"Success", accepted + "00000000 00000000 00000000 0000002a", nil, 4},
		{"VerifierOfAnotherFlavour", accepted + "00000007 00000008 5354415254544c53 00000000", nil, 0},
		{"Mismatch", accepted + "00000000 00000000 00000002 00000001 00000003", ErrProgMismatch, 0},
		{"UnknownAcceptStat", accepted + "00000000 00000000 00000063", &ReplyError{AcceptStat: 99}, 0},
		{"VerifierOver400", accepted + "00000000 00000191", ErrBadReply, 0},
		{"MismatchCut", accepted + "00000000 00000000 00000002 00000001", ErrBadReply, 0},
		{"NoStatus", accepted + "00000000 00000000", ErrBadReply, 0},
		{"Denied", "11223344 00000001 00000001 00000001 00000005", AuthError(AUTH_TOOWEAK), 0},
		{"UnknownAuthStat", "11223344 00000001 00000001 00000001 00000063", AuthError(99), 0},
		{"DeniedCut", "11223344 00000001 00000001 00000001", ErrBadReply, 0},
		{"UnknownRejectStat", "11223344 00000001 00000001 00000002 00000005", ErrBadReply, 0},
		{"UnknownReplyStat", "11223344 00000001 00000002 00000002 00000005", ErrBadReply, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := xdr.NewDecoder(unhex(t, c.hex))
			err := readReply(d, nil)
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.rest, d.Len())
		})
	}
}

// The headers that are written by hand are those of rpc_msg.x.
func TestHeadersAsGenerated(t *testing.T) {
	cred := OpaqueAuth{Flavor: AUTH_SYS, Body: []byte("seven b")}
	want, err := xdr.Marshal(RpcMsg{Xid: 1, Body: RpcMsgBody{Mtype: CALL, Cbody: CallBody{
		Rpcvers: RPC_MSG_VERSION, Prog: 2, Vers: 3, Proc: 4, Cred: cred,
	}}})
	require.NoError(t, err)
	require.Equal(t, want, appendCall(nil, 1, 2, 3, 4, cred, OpaqueAuth{}))

	want, err = xdr.Marshal(RpcMsg{Xid: 1, Body: RpcMsgBody{Mtype: REPLY}})
	require.NoError(t, err)
	got := []byte("twenty-four bytes of junk")[:acceptedLen]
	putAccepted(got, 1, OpaqueAuth{})
	require.Equal(t, want, got)
}

// A handler's error becomes a reply: what it decided, or else SYSTEM_ERR.
func TestRefusalFor(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want error
	}{
		{"Sentinel", ErrGarbageArgs, ErrGarbageArgs},
		{"Wrapped", fmt.Errorf("text: %w", ErrGarbageArgs), ErrGarbageArgs},
		{"Denied", AuthError(AUTH_TOOWEAK), AuthError(AUTH_TOOWEAK)},
		{"Other", errors.New("disk full"), ErrSystem},
		{"OfAnotherServer", fmt.Errorf("next hop: %w", &ReplyError{AcceptStat: PROC_UNAVAIL, remote: true}), ErrSystem},
		{"Success", &ReplyError{AcceptStat: SUCCESS}, ErrSystem},
	} {
		t.Run(c.name, func(t *testing.T) { require.ErrorIs(t, refusalFor(c.err), c.want) })
	}
}

// RFC 5531 appendix A.
func TestSysAuth(t *testing.T) {
	p := AuthsysParms{Stamp: 1, Machinename: "host", Uid: 1000, Gid: 100, Gids: make([]uint32, MAX_GIDS)}
	cred, err := SysAuth(p)
	require.NoError(t, err)
	c := &Call{Cred: cred}
	require.Equal(t, AUTH_OK, authenticate(c))
	require.Equal(t, &p, c.Sys)

	t.Run("17Groups", func(t *testing.T) {
		p := p
		p.Gids = make([]uint32, MAX_GIDS+1)
		_, err := SysAuth(p)
		require.ErrorIs(t, err, ErrCredential)
		require.ErrorContains(t, err, "17 groups, at most 16")
	})
	t.Run("LongMachineName", func(t *testing.T) {
		p := p
		p.Machinename = string(make([]byte, MAX_MACHINE_NAME+1))
		_, err := SysAuth(p)
		require.ErrorIs(t, err, ErrCredential)
	})
}
