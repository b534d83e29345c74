// Package differ compares what our generated code reads and writes with what
// C rpcgen's does: random values go through a C program and come back.
package differ

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"

	"starfish/xdr"
)

// Value is a pointer to a generated type.
type Value interface {
	xdr.Appender
	xdr.DecoderFrom
}

// Kind is a type under test: its name in the .x file, and a new zero value.
type Kind struct {
	Name string
	Make func() Value
}

// Of returns the kind of T.
func Of[T any, P interface {
	*T
	Value
}](name string) Kind {
	return Kind{name, func() Value { return P(new(T)) }}
}

// Random returns a value of kind k that can be encoded, and its encoding. It is
// what its encoding means: fields of a union that do not count are zero.
func Random(rng *rand.Rand, k Kind) (Value, []byte, error) {
	for range 5000 {
		v := k.Make()
		fill(rng, reflect.ValueOf(v).Elem(), 0)
		b, err := v.AppendXDR(nil)
		if err != nil {
			continue // a discriminant without an arm, or more than a bound
		}
		clean := k.Make()
		if err := xdr.Unmarshal(b, clean); err != nil {
			return nil, nil, fmt.Errorf("%s %x is not read: %w", k.Name, b, err)
		}
		return clean, b, nil
	}
	return nil, nil, fmt.Errorf("%s: no value that can be encoded", k.Name)
}

// fill makes v random; deeper values are smaller.
func fill(rng *rand.Rand, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rng.IntN(2) == 0)
	case reflect.Int32:
		v.SetInt(int64(small(rng)))
		if _, ok := v.Interface().(fmt.Stringer); ok {
			fillEnum(rng, v)
		}
	case reflect.Int8, reflect.Int16:
		v.SetInt(int64(small(rng))) // its lower bits
	case reflect.Int64:
		v.SetInt(int64(wide(rng)))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(uint64(small(rng)))
	case reflect.Uint64:
		v.SetUint(wide(rng))
	case reflect.Float32, reflect.Float64:
		f := float64(float32(rng.NormFloat64()))
		if rng.IntN(8) == 0 {
			f = []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1)}[rng.IntN(4)]
		}
		v.SetFloat(f)
	case reflect.String:
		b := make([]byte, rng.IntN(9))
		for i := range b {
			b[i] = byte(1 + rng.IntN(255)) // libtirpc ends a string at a 0
		}
		v.SetString(string(b))
	case reflect.Slice:
		n := rng.IntN(max(1, 4-depth/2)) // deep ones are short, and mostly within their bounds
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

// fillEnum gives an enum one of its values, which String has names for.
func fillEnum(rng *rand.Rand, v reflect.Value) {
	known := func(n int64) bool {
		v.SetInt(n)
		return !strings.Contains(fmt.Sprint(v.Interface()), "(")
	}
	for span := int64(8); span < 1<<20; span *= 2 {
		for range 20 {
			if known(rng.Int64N(2*span) - span/2) {
				return
			}
		}
	}
	for n := int64(0); n < 1<<20; n++ {
		if known(n) || known(-n) {
			return
		}
	}
	panic(fmt.Sprintf("%T has no value", v.Interface()))
}

// edges are numbers at which something may change.
var edges = []int64{-1, 0, 1, 127, 128, 255, 256, -129, 32767, 32768, 65535, 65536, math.MaxInt32, math.MinInt32, math.MaxUint32}

// small returns often a small number, so that unions of numbers have arms.
func small(rng *rand.Rand) int32 {
	switch rng.IntN(4) {
	case 0, 1:
		return int32(rng.IntN(8) - 3)
	case 2:
		return int32(edges[rng.IntN(len(edges))])
	}
	return int32(rng.Uint32())
}

func wide(rng *rand.Rand) uint64 {
	if rng.IntN(2) == 0 {
		return uint64(small(rng))
	}
	return rng.Uint64()
}
