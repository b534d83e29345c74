package codec

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"starfish/tests/codec/differ"
)

// FuzzDecode reads bytes as every type: no panic, and what is read strictly is
// written as it was.
func FuzzDecode(f *testing.F) {
	var kinds []differ.Kind
	rng := rand.New(rand.NewPCG(9, 10))
	for _, file := range files {
		for _, k := range file.kinds {
			_, b := random(f, rng, k)
			f.Add(uint8(len(kinds)), b, false)
			f.Add(uint8(len(kinds)), b, true)
			kinds = append(kinds, k)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte, lax bool) {
		k := kinds[int(which)%len(kinds)]
		v := k.Make()
		if decode(b, v, lax) != nil || lax {
			return
		}
		again, err := v.AppendXDR(nil)
		if err != nil {
			t.Fatalf("%s: %x was read, but not written: %v", k.Name, b, err)
		}
		if !bytes.Equal(b, again) {
			t.Fatalf("%s: %x is written as %x", k.Name, b, again)
		}
	})
}
