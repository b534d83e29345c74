package codec

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// random returns a value of kind k that can be encoded, and its encoding. It is
// what its encoding means: fields of a union that do not count are zero.
func random(t testing.TB, rng *rand.Rand, k kind) (value, []byte) {
	t.Helper()
	for range 1000 {
		v := k.make()
		fill(rng, reflect.ValueOf(v).Elem(), 0)
		b, err := v.AppendXDR(nil)
		if err != nil {
			continue // a discriminant without an arm
		}
		clean := k.make()
		require.NoError(t, decode(b, clean, false))
		return clean, b
	}
	t.Fatalf("%s: no value that can be encoded", k.name)
	return nil, nil
}

// fill makes v random; deeper values are smaller.
func fill(rng *rand.Rand, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rng.IntN(2) == 0)
	case reflect.Int32:
		v.SetInt(int64(small(rng)))
		if _, ok := v.Interface().(fmt.Stringer); ok { // an enum
			for strings.Contains(fmt.Sprint(v.Interface()), "(") {
				v.SetInt(int64(rng.IntN(18) - 2))
			}
		}
	case reflect.Int64:
		v.SetInt(int64(rng.Uint64()))
	case reflect.Uint32:
		v.SetUint(uint64(uint32(small(rng))))
	case reflect.Uint64:
		v.SetUint(rng.Uint64())
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(float32(rng.NormFloat64())))
	case reflect.Uint8:
		v.SetUint(uint64(1 + rng.IntN(255))) // libtirpc ends a string at a 0
	case reflect.String:
		b := make([]byte, rng.IntN(9))
		for i := range b {
			b[i] = byte(1 + rng.IntN(255))
		}
		v.SetString(string(b))
	case reflect.Slice:
		n := rng.IntN(4)
		if depth > 6 {
			n = 0
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			fill(rng, v.Index(i), depth+1)
		}
	case reflect.Pointer:
		if depth < 8 && rng.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(rng, v.Elem(), depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(rng, v.Field(i), depth+1)
		}
	default:
		panic("a kind that rpcgen does not write: " + v.Kind().String())
	}
}

// small returns often a small number, so that unions of numbers have arms.
func small(rng *rand.Rand) int32 {
	if rng.IntN(2) == 0 {
		return int32(rng.IntN(8) - 3)
	}
	return int32(rng.Uint32())
}
