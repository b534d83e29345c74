// Package codec tests what rpcgen writes: that all types of our .x files and of
// sample.x mean on the wire what C rpcgen's code over libtirpc means, and that
// no bytes do harm.
package codec

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/portmap"
	"starfish/rpc"
	"starfish/structs"
	"starfish/tests/codec/differ"
	"starfish/tests/codec/sample"
)

// random returns a random value of kind k and its encoding.
func random(t testing.TB, rng *rand.Rand, k differ.Kind) (differ.Value, []byte) {
	t.Helper()
	v, b, err := differ.Random(rng, k)
	require.NoError(t, err)
	return v, b
}

// file is an .x file with all its types but typedefs of pointers, which are
// aliases and stand in other types.
type file struct {
	path  string
	kinds []differ.Kind
}

var files = []file{
	{"../../structs.x", []differ.Kind{
		differ.Of[structs.VecT]("vec_t"), differ.Of[structs.MachineVecNode]("machine_vec_node"), differ.Of[structs.QueryReturnValue]("query_return_value"),
		differ.Of[structs.HandleQueryArgs]("handle_query_args"), differ.Of[structs.MachineName]("machine_name"), differ.Of[structs.CoordinateArgs]("coordinate_args"),
		differ.Of[structs.CoordinateReturnValue]("coordinate_return_value"), differ.Of[structs.QueryText]("query_text"),
		differ.Of[structs.RowBitmapFormat]("row_bitmap_format"), differ.Of[structs.RowBitmap]("row_bitmap"), differ.Of[structs.QueryStatus]("query_status"),
		differ.Of[structs.QueryRequest]("query_request"), differ.Of[structs.QueryAnswer]("query_answer"), differ.Of[structs.QueryFailure]("query_failure"),
		differ.Of[structs.QueryResponse]("query_response"), differ.Of[structs.HandleQuery2Args]("handle_query2_args"),
		differ.Of[structs.AbsentVector]("absent_vector"), differ.Of[structs.LegAnswer]("leg_answer"),
		differ.Of[structs.RowsResponse]("rows_response"), differ.Of[structs.RangeStrategy]("range_strategy"), differ.Of[structs.RangePlan]("range_plan"),
		differ.Of[structs.Coordinate2Args]("coordinate2_args"),
		differ.Of[structs.CoordinatedAnswer]("coordinated_answer"), differ.Of[structs.Coordinate2Response]("coordinate2_response"), differ.Of[structs.JoinSecret]("join_secret"), differ.Of[structs.StoreRequest]("store_request"), differ.Of[structs.EraseRequest]("erase_request"),
		differ.Of[structs.RevisionResponse]("revision_response"), differ.Of[structs.InventoryRequest]("inventory_request"),
		differ.Of[structs.InventoryItem]("inventory_item"), differ.Of[structs.InventoryPage]("inventory_page"),
		differ.Of[structs.InventoryResponse]("inventory_response"), differ.Of[structs.StoredVector]("stored_vector"),
		differ.Of[structs.FetchResponse]("fetch_response"), differ.Of[structs.IdSet]("id_set"), differ.Of[structs.LegRequest]("leg_request"),
		differ.Of[structs.LegWindow]("leg_window"), differ.Of[structs.LegResponse]("leg_response"),
		differ.Of[structs.PutRequest]("put_request"), differ.Of[structs.PutResponse]("put_response"),
		differ.Of[structs.RouteReason]("route_reason"), differ.Of[structs.ExplainedMember]("explained_member"),
		differ.Of[structs.ExplainedRange]("explained_range"), differ.Of[structs.Explanation]("explanation"),
		differ.Of[structs.ExplainResponse]("explain_response"), differ.Of[structs.SlaveState]("slave_state"), differ.Of[structs.SlaveStatus]("slave_status"),
		differ.Of[structs.ClusterStatus]("cluster_status"), differ.Of[structs.MembersRequest]("members_request"), differ.Of[structs.Member]("member"),
		differ.Of[structs.MembersPage]("members_page"), differ.Of[structs.IdRange]("id_range"), differ.Of[structs.JoinRequest]("join_request"),
		differ.Of[structs.ClusterMachine]("cluster_machine"), differ.Of[structs.JoinAnswer]("join_answer"), differ.Of[structs.JoinResponse]("join_response"),
		differ.Of[structs.ChangeKind]("change_kind"), differ.Of[structs.PriorityChoice]("priority_choice"),
		differ.Of[structs.PriorityChange]("priority_change"), differ.Of[structs.WeightChange]("weight_change"),
		differ.Of[structs.RemoveChange]("remove_change"), differ.Of[structs.MaskChange]("mask_change"), differ.Of[structs.DrainChange]("drain_change"),
		differ.Of[structs.MoveChange]("move_change"), differ.Of[structs.ChangeRequest]("change_request"),
		differ.Of[structs.ChangeAnswer]("change_answer"), differ.Of[structs.ChangeResponse]("change_response"),
	}},
	{"../../rpc/rpc_msg.x", []differ.Kind{
		differ.Of[rpc.AuthFlavor]("auth_flavor"), differ.Of[rpc.OpaqueAuth]("opaque_auth"), differ.Of[rpc.MsgType]("msg_type"), differ.Of[rpc.ReplyStat]("reply_stat"),
		differ.Of[rpc.AcceptStat]("accept_stat"), differ.Of[rpc.RejectStat]("reject_stat"), differ.Of[rpc.AuthStat]("auth_stat"),
		differ.Of[rpc.MismatchInfo]("mismatch_info"), differ.Of[rpc.CallBody]("call_body"), differ.Of[rpc.AcceptedReplyData]("accepted_reply_data"),
		differ.Of[rpc.AcceptedReply]("accepted_reply"), differ.Of[rpc.RejectedReply]("rejected_reply"), differ.Of[rpc.ReplyBody]("reply_body"),
		differ.Of[rpc.RpcMsgBody]("rpc_msg_body"), differ.Of[rpc.RpcMsg]("rpc_msg"), differ.Of[rpc.AuthsysParms]("authsys_parms"),
	}},
	{"../../portmap/pmap_prot.x", []differ.Kind{
		differ.Of[portmap.Mapping]("mapping"), differ.Of[portmap.Pmaplist]("pmaplist"), differ.Of[portmap.CallArgs]("call_args"),
		differ.Of[portmap.CallResult]("call_result"),
	}},
	{"../../portmap/rpcb_prot.x", []differ.Kind{
		differ.Of[portmap.Rpcb]("rpcb"), differ.Of[portmap.RpList]("rp__list"), differ.Of[portmap.RpcbRmtcallargs]("rpcb_rmtcallargs"),
		differ.Of[portmap.RpcbRmtcallres]("rpcb_rmtcallres"), differ.Of[portmap.RpcbEntry]("rpcb_entry"), differ.Of[portmap.RpcbEntryList]("rpcb_entry_list"),
		differ.Of[portmap.RpcbsAddrlist]("rpcbs_addrlist"), differ.Of[portmap.RpcbsRmtcalllist]("rpcbs_rmtcalllist"),
		differ.Of[portmap.RpcbsProc]("rpcbs_proc"), differ.Of[portmap.RpcbStat]("rpcb_stat"), differ.Of[portmap.RpcbStatByvers]("rpcb_stat_byvers"),
		differ.Of[portmap.Netbuf]("netbuf"),
	}},
	{"sample/sample.x", []differ.Kind{
		differ.Of[sample.Color]("color"), differ.Of[sample.Count]("count"), differ.Of[sample.Number]("number"), differ.Of[sample.Big]("big"), differ.Of[sample.Real]("real"),
		differ.Of[sample.Flag]("flag"), differ.Of[sample.Tint]("tint"), differ.Of[sample.Label]("label"), differ.Of[sample.Text]("text"), differ.Of[sample.Key]("key"),
		differ.Of[sample.Blob]("blob"), differ.Of[sample.Triple]("triple"), differ.Of[sample.Labels]("labels"), differ.Of[sample.Keys]("keys"),
		differ.Of[sample.Palette]("palette"), differ.Of[sample.Hypers]("hypers"), differ.Of[sample.Bytes]("bytes"), differ.Of[sample.Basics]("basics"), differ.Of[sample.Wide]("wide"), differ.Of[sample.Arrays]("arrays"),
		differ.Of[sample.Type]("type"), differ.Of[sample.Optionals]("optionals"), differ.Of[sample.Item]("item"), differ.Of[sample.Chain]("chain"),
		differ.Of[sample.Lists]("lists"), differ.Of[sample.Tree]("tree"), differ.Of[sample.Bush]("bush"), differ.Of[sample.Expression]("expression"),
		differ.Of[sample.Operands]("operands"), differ.Of[sample.Shape]("shape"), differ.Of[sample.Layer]("layer"), differ.Of[sample.Drawing]("drawing"),
		differ.Of[sample.ByBool]("by_bool"), differ.Of[sample.ByFlag]("by_flag"), differ.Of[sample.ByInt]("by_int"),
		differ.Of[sample.Narrow]("narrow"), differ.Of[sample.NestedWay]("nested_way"), differ.Of[sample.NestedWhereDeep]("nested_where_deep"),
		differ.Of[sample.NestedWhere]("nested_where"), differ.Of[sample.NestedRest]("nested_rest"), differ.Of[sample.Nested]("nested"),
		differ.Of[sample.Only]("only"), differ.Of[sample.ByShort]("by_short"), differ.Of[sample.ByUnsigned]("by_unsigned"), differ.Of[sample.ByEnum]("by_enum"),
	}},
}

func TestEveryTypeIsListed(t *testing.T) {
	for i, f := range files {
		require.Equal(t, ours[i].x, f.path)
		var want, got []string
		for _, k := range kindsOf(ours[i].code(t), nil) {
			want = append(want, k[1])
		}
		for _, k := range f.kinds {
			got = append(got, k.Name)
		}
		require.Subset(t, got, want, f.path)
	}
}

// eachKind runs test for every type.
func eachKind(t *testing.T, test func(t *testing.T, k differ.Kind)) {
	for _, f := range files {
		for _, k := range f.kinds {
			t.Run(k.Name, func(t *testing.T) { test(t, k) })
		}
	}
}
