package rpcgen

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Code that would not compile is not handed out.
func TestVerify(t *testing.T) {
	for _, c := range []struct {
		name, code, says string
		units            []*unit
	}{
		{"good", "package p\nimport (\n\"fmt\"\n\"starfish/xdr\"\n)\ntype A struct{ d *xdr.Decoder }\nfunc (a A) F() error { return fmt.Errorf(\"%v\", a.d.Len()) }\n", "", nil},
		{"a name twice", "package p\ntype A int\ntype A int\n", "p_xdr.go:3:6: A redeclared in this block", nil},
		{"no such method", "package p\ntype A int\nvar a A\nvar b = a.F()\n", "p_xdr.go:4:11: a.F undefined", nil},
		{"not used", "package p\nimport \"fmt\"\n", `p_xdr.go:2:8: "fmt" is imported and not used`, nil},
		{"no Go", "package p\ntype A\n", "p_xdr.go:2:7", nil},
		{"undeclared", "package p\nvar a B\n", "undefined: B", nil},
		{"in an imported file of the package", "package p\nvar a B\n", "", []*unit{{}}},
		{"in another package", "package p\nvar a B\n", "undefined: B", []*unit{{path: "some/where"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := (&compiler{units: c.units}).verify([]Output{{Name: "p_xdr.go", Code: []byte(c.code)}})
			if c.says == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.says)
			}
		})
	}
}
