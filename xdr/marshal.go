package xdr

import "fmt"

// Appender is a value that can be encoded: it appends itself to b. Where it
// returns an error, what it appended is not a whole value.
type Appender interface {
	AppendXDR(b []byte) ([]byte, error)
}

// DecoderFrom is a value that can be decoded: it reads itself from d and
// returns d's error.
type DecoderFrom interface {
	DecodeXDR(d *Decoder) error
}

// AppendFunc is a function as an Appender.
type AppendFunc func(b []byte) ([]byte, error)

// AppendXDR calls f.
func (f AppendFunc) AppendXDR(b []byte) ([]byte, error) { return f(b) }

// DecodeFunc is a function as a DecoderFrom.
type DecodeFunc func(d *Decoder) error

// DecodeXDR calls f.
func (f DecodeFunc) DecodeXDR(d *Decoder) error { return f(d) }

// Aliased returns what reads v with Decoder.Alias set: its opaque data are parts of
// the input, which must stay as it is. A result that is megabytes of them is not
// copied then.
func Aliased(v DecoderFrom) DecoderFrom {
	return DecodeFunc(func(d *Decoder) error {
		d.Alias = true
		return v.DecodeXDR(d)
	})
}

// Marshal returns v's encoding.
func Marshal(v Appender) ([]byte, error) {
	var b []byte
	if s, ok := v.(Sizer); ok {
		b = make([]byte, 0, max(0, s.XDRSize()))
	}
	b, err := v.AppendXDR(b)
	if err != nil {
		return nil, fmt.Errorf("xdr: %w", err)
	}
	return b, nil
}

// Unmarshal reads v from b, strictly, and all of b: trailing bytes are
// ErrTrailing.
func Unmarshal(b []byte, v DecoderFrom) error {
	d := Decoder{buf: b}
	if err := v.DecodeXDR(&d); err != nil {
		return err
	}
	if d.Len() > 0 {
		return &Error{Offset: d.off, Err: fmt.Errorf("%d %w", d.Len(), ErrTrailing)}
	}
	return nil
}
