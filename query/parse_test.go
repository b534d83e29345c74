package query

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const maxID = 1<<64 - 1

func spans(s ...Span) Range { return Range{Spans: s} }

func TestParse(t *testing.T) {
	all := Range{All: true}
	for text, want := range map[string]Query{
		"P:7":                           {Point: true, Ranges: []Range{spans(Span{7, 7})}},
		"P:0":                           {Point: true, Ranges: []Range{spans(Span{0, 0})}},
		"P:18446744073709551615":        {Point: true, Ranges: []Range{spans(Span{maxID, maxID})}},
		" P: 007 \r\n":                  {Point: true, Ranges: []Range{spans(Span{7, 7})}},
		"R:0-3&10-14":                   {Ranges: []Range{spans(Span{0, 3}), spans(Span{10, 14})}},
		"R:[0,3]&[10,14]":               {Ranges: []Range{spans(Span{0, 3}), spans(Span{10, 14})}},
		"R:[0,3]&[10,14]\n":             {Ranges: []Range{spans(Span{0, 3}), spans(Span{10, 14})}},
		"R: [ 0 , 3 ]\t&\v[ 10,14 ]\f ": {Ranges: []Range{spans(Span{0, 3}), spans(Span{10, 14})}},
		"R:0 - 3 & 10 -14":              {Ranges: []Range{spans(Span{0, 3}), spans(Span{10, 14})}},
		"R:7&9":                         {Ranges: []Range{spans(Span{7, 7}), spans(Span{9, 9})}},
		"R:7":                           {Ranges: []Range{spans(Span{7, 7})}},
		"R:{1,4,9}":                     {Ranges: []Range{spans(Span{1, 1}, Span{4, 4}, Span{9, 9})}},
		"R:{ 1 , 4-6 }":                 {Ranges: []Range{spans(Span{1, 1}, Span{4, 6})}},
		"R:2,5-7":                       {Ranges: []Range{spans(Span{2, 2}, Span{5, 7})}},
		"R:9,2 , 2,[1,3]":               {Ranges: []Range{spans(Span{9, 9}, Span{2, 2}, Span{2, 2}, Span{1, 3})}},
		"R:*":                           {Ranges: []Range{all}},
		"R:*&*&1":                       {Ranges: []Range{all, all, spans(Span{1, 1})}},
		"R:0-18446744073709551615":      {Ranges: []Range{spans(Span{0, maxID})}},
	} {
		t.Run(text, func(t *testing.T) {
			got, err := Parse(text)
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                         `query: byte 1: expected P: or R:, found the end`,
		"  ":                       `query: byte 3: expected P: or R:, found the end`,
		"7":                        `query: byte 1: expected P: or R:, found "7"`,
		"Q:7":                      `query: byte 1: expected P: or R:, found "Q"`,
		"p:7":                      `query: byte 1: expected P: or R:, found "p"`,
		"P :7":                     `query: byte 1: expected P: or R:, found "P"`,
		"P:":                       `query: byte 3: expected a vector id, found the end`,
		"P:*":                      `query: byte 3: expected a vector id, found "*"`,
		"P:7-8":                    `query: byte 4: expected the end, found "-"`,
		"P:7 8":                    `query: byte 5: expected the end, found "8"`,
		"P:-1":                     `query: byte 3: expected a vector id, found "-"`,
		"P:18446744073709551616":   `query: byte 3: the number "18446744073709551616" is too large; expected an id up to 18446744073709551615`,
		"R:":                       `query: byte 3: expected a vector id, [, { or *, found the end`,
		"R:7&":                     `query: byte 5: expected a vector id, [, { or *, found the end`,
		"R:7& \n":                  `query: byte 7: expected a vector id, [, { or *, found the end`,
		"R:&7":                     `query: byte 3: expected a vector id, [, { or *, found "&"`,
		"R:7&&8":                   `query: byte 5: expected a vector id, [, { or *, found "&"`,
		"R:1 2":                    `query: byte 5: expected -, a comma, & or the end, found "2"`,
		"R:1-2-3":                  `query: byte 6: expected a comma, & or the end, found "-"`,
		"R:1,":                     `query: byte 5: expected a vector id or [, found the end`,
		"R:1,*":                    `query: byte 5: expected a vector id or [, found "*"`,
		"R:*,1":                    `query: byte 4: expected & or the end, found ","`,
		"R:3-":                     `query: byte 5: expected a vector id, found the end`,
		"R:3-1":                    `query: byte 5: the range 3-1 ends before it begins; expected an id of 3 or more`,
		"R:[3,1]":                  `query: byte 6: the range 3-1 ends before it begins; expected an id of 3 or more`,
		"R:[3]":                    `query: byte 5: expected a comma and the last id of the range, found "]"`,
		"R:[3,4":                   `query: byte 7: expected ], found the end`,
		"R:[3,4,5]":                `query: byte 7: expected ], found ","`,
		"R:{}":                     `query: byte 4: expected a vector id or [, found "}"`,
		"R:{1,2":                   `query: byte 7: expected -, a comma or }, found the end`,
		"R:{1-2&":                  `query: byte 7: expected a comma or }, found "&"`,
		"R:0-18446744073709551616": `query: byte 5: the number "18446744073709551616" is too large; expected an id up to 18446744073709551615`,
		"R:0x10":                   `query: byte 4: expected -, a comma, & or the end, found "x10"`,
		"R:1\x00":                  `query: byte 4: expected -, a comma, & or the end, found "\x00"`,
		"R:foo":                    `query: byte 3: expected a vector id, [, { or *, found "foo"`,
		"P:Country=Germany":        `query: byte 3: names are not supported yet; expected a vector id`,
		`P:"Country"="West \" G"`:  `query: byte 3: names are not supported yet; expected a vector id`,
		"R:1&Land = {2024,2025}":   `query: byte 5: names are not supported yet; expected a vector id, [, { or *`,
		`R:"open`:                  `query: byte 3: expected a vector id, [, { or *, found "\"open"`,
		"R:1-Länder=2":             `query: byte 5: names are not supported yet; expected a vector id`,
	} {
		t.Run(text, func(t *testing.T) {
			_, err := Parse(text)
			require.EqualError(t, err, want)
			var syntax *SyntaxError
			require.ErrorAs(t, err, &syntax)
			require.Positive(t, syntax.Pos)
		})
	}
}

func TestParseBound(t *testing.T) {
	text := "R:" + strings.Repeat("7,", MaxText/2-2) + "77"
	require.Len(t, text, MaxText)
	q, err := Parse(text)
	require.NoError(t, err)
	require.Len(t, q.Ranges[0].Spans, MaxText/2-1)

	_, err = Parse(text + "7")
	require.EqualError(t, err, "query: byte 65537: the query has 65537 bytes, 65536 are allowed; expected the end")
	_, err = Parse("P:" + strings.Repeat("0", MaxText-3) + "7")
	require.NoError(t, err)
}

// blank draws white space, mostly none.
func blank(t *rapid.T) string { return rapid.StringMatching(`[ \t\r\n]{0,2}`).Draw(t, "blank") }

// drawQuery draws a query and one of the ways to write it.
func drawQuery(t *rapid.T) (Query, string) {
	id := rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 99))
	if rapid.Bool().Draw(t, "point") {
		v := id.Draw(t, "id")
		s := Span{v, v}
		return Query{Point: true, Ranges: []Range{spans(s)}}, "P:" + blank(t) + s.String() + blank(t)
	}
	var q Query
	var parts []string
	for range rapid.IntRange(1, 4).Draw(t, "ranges") {
		if rapid.IntRange(0, 4).Draw(t, "all") == 0 {
			q.Ranges = append(q.Ranges, Range{All: true})
			parts = append(parts, blank(t)+"*"+blank(t))
			continue
		}
		var r Range
		var items []string
		for range rapid.IntRange(1, 4).Draw(t, "items") {
			a, b := id.Draw(t, "lo"), id.Draw(t, "hi")
			s := Span{min(a, b), max(a, b)}
			r.Spans = append(r.Spans, s)
			text := s.String()
			if rapid.Bool().Draw(t, "brackets") {
				text = "[" + Span{s.Lo, s.Lo}.String() + blank(t) + "," + blank(t) + Span{s.Hi, s.Hi}.String() + "]"
			}
			items = append(items, blank(t)+text+blank(t))
		}
		text := strings.Join(items, ",")
		if rapid.Bool().Draw(t, "braces") {
			text = "{" + text + "}"
		}
		q.Ranges = append(q.Ranges, r)
		parts = append(parts, text)
	}
	return q, "R:" + strings.Join(parts, "&")
}

func TestEverySpelling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, text := drawQuery(t)
		got, err := Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
		again, err := Parse(want.String())
		require.NoError(t, err)
		require.Equal(t, want, again)
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"P:7", "R:0-3&10-14", "R:[0,3]&[10,14]\n", "R:7&9", "R:{1,4,9}", "R:2,5-7", "R:*", "R: * & { 1 , 2-3 }\r\n",
		"R:0-18446744073709551615", "R:0-18446744073709551616", "R:7&", "R:", "", "P:Country=Germany",
		`R:"a\"b"={2024,2025}&Kind=*`, "R:3-1", "R:[1,2", "R:{", "\x00", "R:\xff",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := Parse(text)
		if err != nil {
			var syntax *SyntaxError
			require.ErrorAs(t, err, &syntax)
			require.True(t, syntax.Pos >= 1 && syntax.Pos <= len(text)+1)
			require.NotEmpty(t, syntax.Expected)
			return
		}
		for _, r := range q.Ranges {
			require.Equal(t, r.All, len(r.Spans) == 0)
			for _, s := range r.Spans {
				require.LessOrEqual(t, s.Lo, s.Hi)
			}
		}
		if s := q.String(); len(s) <= MaxText {
			again, err := Parse(s)
			require.NoError(t, err)
			require.Equal(t, q, again)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := Parse("R:[0,3]&[10,14]\n"); err != nil {
			b.Fatal(err)
		}
	}
}
