// Package codec tests what rpcgen writes: that all types of our .x files and of
// sample.x mean on the wire what C rpcgen's code over libtirpc means, and that
// no bytes do harm.
package codec

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/portmap"
	"starfish/rpc"
	"starfish/structs"
	"starfish/tests/codec/sample"
	"starfish/xdr"
)

// value is a pointer to a generated type.
type value interface {
	xdr.Appender
	xdr.DecoderFrom
}

// kind is a type under test: its C name, and a new zero value.
type kind struct {
	name string
	make func() value
}

func of[T any, P interface {
	*T
	value
}](name string) kind {
	return kind{name, func() value { return P(new(T)) }}
}

// file is an .x file with all its types but typedefs of pointers, which are
// aliases and stand in other types.
type file struct {
	path  string
	flags []string // for C rpcgen
	kinds []kind
}

var files = []file{
	{"../../structs.x", nil, []kind{
		of[structs.VecT]("vec_t"), of[structs.MachineVecNode]("machine_vec_node"), of[structs.QueryReturnValue]("query_return_value"),
		of[structs.HandleQueryArgs]("handle_query_args"), of[structs.MachineName]("machine_name"), of[structs.CoordinateArgs]("coordinate_args"),
		of[structs.CoordinateReturnValue]("coordinate_return_value"), of[structs.QueryText]("query_text"),
		of[structs.RowBitmapFormat]("row_bitmap_format"), of[structs.RowBitmap]("row_bitmap"), of[structs.QueryStatus]("query_status"),
		of[structs.QueryRequest]("query_request"), of[structs.QueryAnswer]("query_answer"), of[structs.QueryFailure]("query_failure"),
		of[structs.QueryResponse]("query_response"), of[structs.HandleQuery2Args]("handle_query2_args"),
		of[structs.RowsResponse]("rows_response"), of[structs.RangeStrategy]("range_strategy"), of[structs.RangePlan]("range_plan"),
		of[structs.Coordinate2Args]("coordinate2_args"), of[structs.StoreRequest]("store_request"), of[structs.EraseRequest]("erase_request"),
		of[structs.RevisionResponse]("revision_response"), of[structs.InventoryRequest]("inventory_request"),
		of[structs.InventoryItem]("inventory_item"), of[structs.InventoryPage]("inventory_page"),
		of[structs.InventoryResponse]("inventory_response"), of[structs.StoredVector]("stored_vector"),
		of[structs.FetchResponse]("fetch_response"), of[structs.PutRequest]("put_request"), of[structs.PutResponse]("put_response"),
		of[structs.RouteReason]("route_reason"), of[structs.ExplainedMember]("explained_member"),
		of[structs.ExplainedRange]("explained_range"), of[structs.Explanation]("explanation"),
		of[structs.ExplainResponse]("explain_response"), of[structs.SlaveState]("slave_state"), of[structs.SlaveStatus]("slave_status"),
		of[structs.ClusterStatus]("cluster_status"), of[structs.MembersRequest]("members_request"), of[structs.Member]("member"),
		of[structs.MembersPage]("members_page"), of[structs.IdRange]("id_range"), of[structs.JoinRequest]("join_request"),
		of[structs.ClusterMachine]("cluster_machine"), of[structs.JoinAnswer]("join_answer"), of[structs.JoinResponse]("join_response"),
	}},
	{"../../rpc/rpc_msg.x", nil, []kind{
		of[rpc.AuthFlavor]("auth_flavor"), of[rpc.OpaqueAuth]("opaque_auth"), of[rpc.MsgType]("msg_type"), of[rpc.ReplyStat]("reply_stat"),
		of[rpc.AcceptStat]("accept_stat"), of[rpc.RejectStat]("reject_stat"), of[rpc.AuthStat]("auth_stat"),
		of[rpc.MismatchInfo]("mismatch_info"), of[rpc.CallBody]("call_body"), of[rpc.AcceptedReplyData]("accepted_reply_data"),
		of[rpc.AcceptedReply]("accepted_reply"), of[rpc.RejectedReply]("rejected_reply"), of[rpc.ReplyBody]("reply_body"),
		of[rpc.RpcMsgBody]("rpc_msg_body"), of[rpc.RpcMsg]("rpc_msg"), of[rpc.AuthsysParms]("authsys_parms"),
	}},
	{"../../portmap/pmap_prot.x", nil, []kind{
		of[portmap.Mapping]("mapping"), of[portmap.Pmaplist]("pmaplist"), of[portmap.CallArgs]("call_args"),
		of[portmap.CallResult]("call_result"),
	}},
	{"../../portmap/rpcb_prot.x", nil, []kind{
		of[portmap.Rpcb]("rpcb"), of[portmap.RpList]("rp__list"), of[portmap.RpcbRmtcallargs]("rpcb_rmtcallargs"),
		of[portmap.RpcbRmtcallres]("rpcb_rmtcallres"), of[portmap.RpcbEntry]("rpcb_entry"), of[portmap.RpcbEntryList]("rpcb_entry_list"),
		of[portmap.RpcbsAddrlist]("rpcbs_addrlist"), of[portmap.RpcbsRmtcalllist]("rpcbs_rmtcalllist"),
		of[portmap.RpcbsProc]("rpcbs_proc"), of[portmap.RpcbStat]("rpcb_stat"), of[portmap.RpcbStatByvers]("rpcb_stat_byvers"),
		of[portmap.Netbuf]("netbuf"),
	}},
	{"sample/sample.x", []string{"-DFOR_C"}, []kind{
		of[sample.Color]("color"), of[sample.Count]("count"), of[sample.Number]("number"), of[sample.Big]("big"), of[sample.Real]("real"),
		of[sample.Flag]("flag"), of[sample.Tint]("tint"), of[sample.Label]("label"), of[sample.Text]("text"), of[sample.Key]("key"),
		of[sample.Blob]("blob"), of[sample.Triple]("triple"), of[sample.Labels]("labels"), of[sample.Keys]("keys"),
		of[sample.Palette]("palette"), of[sample.Basics]("basics"), of[sample.Wide]("wide"), of[sample.Arrays]("arrays"),
		of[sample.Type]("type"), of[sample.Optionals]("optionals"), of[sample.Item]("item"), of[sample.Chain]("chain"),
		of[sample.Lists]("lists"), of[sample.Tree]("tree"), of[sample.Bush]("bush"), of[sample.Expression]("expression"),
		of[sample.Operands]("operands"), of[sample.ByBool]("by_bool"), of[sample.ByFlag]("by_flag"), of[sample.ByInt]("by_int"),
		of[sample.ByUnsigned]("by_unsigned"), of[sample.ByEnum]("by_enum"),
	}},
}

// notInC are types for which libtirpc has no routine.
var notInC = map[string]bool{"wide": true}

var declaration = regexp.MustCompile(`(?m)^(?:(?:enum|struct|union) (\w+)|typedef [^*;]*?(\w+) *(?:[<[][^;]*)?;)`)

func TestEveryTypeIsListed(t *testing.T) {
	for _, f := range files {
		src, err := os.ReadFile(f.path)
		require.NoError(t, err)
		var want, got []string
		for _, m := range declaration.FindAllStringSubmatch(string(src), -1) {
			want = append(want, m[1]+m[2])
		}
		for _, k := range f.kinds {
			got = append(got, k.name)
		}
		require.ElementsMatch(t, want, got, f.path)
	}
}

// eachKind runs test for every type.
func eachKind(t *testing.T, test func(t *testing.T, k kind)) {
	for _, f := range files {
		for _, k := range f.kinds {
			t.Run(k.name, func(t *testing.T) { test(t, k) })
		}
	}
}
