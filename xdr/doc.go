// Package xdr reads and writes the External Data Representation of RFC 4506.
//
// Every item is a multiple of four bytes, big-endian:
//
//	int, unsigned, bool, enum, float   4 bytes
//	char, short, and unsigned ones     4 bytes (C's types; RFC 4506 has no such)
//	hyper, unsigned hyper, double      8 bytes
//	quadruple                          16 bytes
//	opaque[n]                          n bytes, zeros up to a multiple of 4
//	opaque<>, string<>                 length (4 bytes), bytes, zeros up to a multiple of 4
//	T[n]                               n items
//	T<>                                count (4 bytes), items
//	T *                                0, or 1 and the item
//	union                              discriminant (4 bytes), the arm that it selects
//
// A value is written by appending to a byte slice (AppendUint32 and its
// siblings) and read by a [Decoder], which keeps its first error. The code that
// rpcgen writes for a type is an [Appender], a [Sizer] and a [DecoderFrom];
// [Marshal] and [Unmarshal] do one whole value.
//
// # What a decoded value costs
//
// A length is compared with its bound and with the bytes that are really there
// before anything is allocated, so memory is bounded by the input. Lists are
// decoded in a loop, other recursion ends at [MaxDepth].
//
// Opaque data are copied unless [Decoder.Alias] is set. Strings are copied too,
// but those of one list or array are cut from shared copies of up to 64 KiB of
// the input: one that is kept for long keeps its neighbours in memory, unless
// strings.Clone makes it its own. The nodes of a list share allocations in the
// same way.
package xdr
