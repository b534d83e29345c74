package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUsage(t *testing.T) {
	for _, tc := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"--help"}, 0, []string{"--replicas", "--hop-timeout", "--allow", "ready", "slave --master"}},
		{[]string{"--version"}, 0, []string{"dev"}},
		{nil, 2, []string{"--data DIR", "master --help"}},
		{[]string{"--data", "d", "extra"}, 2, []string{"extra"}},
		{[]string{"--data", "d", "--listen", "host"}, 2, []string{"--listen", "host"}},
		{[]string{"--data", "d", "--allow", "10.0.0.0/99"}, 2, []string{"--allow"}},
		{[]string{"--data", "d", "--log-level", "loud"}, 2, []string{"loud"}},
		{[]string{"--data", "d", "--coordinator", "x", "--replicas", "77"}, 2, []string{`"x"`, "77"}},
		{[]string{"--data", "d", "--overlap=false", "--replicas", "2"}, 2, []string{"overlap"}},
		{[]string{"--data", "/dev/null/d"}, 1, []string{"/dev/null"}},
	} {
		var out, errs bytes.Buffer
		require.Equal(t, tc.code, run(context.Background(), tc.args, &out, &errs), "%v: %s", tc.args, errs.String())
		for _, want := range tc.want {
			require.Contains(t, out.String()+errs.String(), want, "%v", tc.args)
		}
	}
}
