package rpcgen_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/rpcgen"
)

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name, src string
		want      []string // each "line:col: message"
	}{
		// What the lexer sees.
		{"a foreign character", "const A = 1;\nconst @B = 2;", []string{"2:7: '@': no such character"}},
		{"not ASCII", "const \xc3\xa4 = 1;", []string{"1:7: byte 0xc3", "1:8: byte 0xa4", "1:10: the constant's name expected, not '='"}},
		{"comment without an end", "const A = 1; /* and", []string{"1:14: comment without an end"}},
		{"a directive", "#pragma once", []string{"1:1: #pragma: this directive is not known"}},
		{"#if", "#if 1\nconst A = 1;\n#endif", []string{"1:1: #if is not known"}},
		{"#endif alone", "#endif", []string{"1:1: #endif without #ifdef"}},
		{"#ifdef without #endif", "#ifdef A\n#ifndef B", []string{"1:1: #ifdef without #endif", "2:1: #ifndef without #endif"}},
		{"#ifdef without a name", "#ifdef\n#endif", []string{"1:1: #ifdef wants one name"}},
		{"second #else", "#ifdef A\n#else\n#else\n#endif", []string{"3:1: second #else"}},
		{"#define of an expression", "#define A (1+2)\nconst B = A;", []string{`2:11: A is defined as "(1+2)"`, "2:12: its value expected, not ';'"}},
		// What the parser sees.
		{"no semicolon", "const A = 1\nconst B = 2;", []string{"2:1: ';' expected after the value, not 'const'"}},
		{"an unknown declaration", "namespace x { };", []string{"1:1: const, enum, struct, union, typedef or program expected, not 'namespace'"}},
		{"a word of the language as a name", "struct switch { int a; };", []string{"1:8: the struct's name expected, but 'switch' is a word of the language"}},
		{"empty struct", "struct s { };", []string{"1:12: struct s has no fields"}},
		{"void in a struct", "struct s { void; };", []string{"1:12: void in struct s"}},
		{"string without brackets", "struct s { string a; };", []string{"1:19: string 'a' needs <> or <n>"}},
		{"string of a fixed size", "struct s { string a[3]; };", []string{"1:21: string 'a' needs <n>, not [n]"}},
		{"opaque without brackets", "struct s { opaque a; };", []string{"1:19: opaque 'a' needs [n] or <n>"}},
		{"pointer to opaque", "struct s { opaque *a; };", []string{"1:20: opaque 'a' needs [n] or <n>"}},
		{"pointer to string", "struct s { string *a; };", []string{"1:20: a pointer to string is not known: typedef it"}},
		{"array of pointers", "struct s { int *a<3>; };", []string{"1:18: 'a' is an array of pointers"}},
		{"two dimensions", "struct s { int a[2][3]; };", []string{"1:20: 'a' has two dimensions"}},
		{"a struct in a struct", "struct s { struct { int a; } b; };", []string{"1:19: struct without a name"}},
		{"an expression", "const A = 1 + 2;", []string{"1:13: '+': no such character", "1:15: ';' expected after the value, not '2'"}},
		{"trailing comma", "enum e { A, };", []string{"1:13: a tag expected, not '}'"}},
		{"second default", "union u switch (int a) { default: void; default: void; };", []string{"1:41: second default of union u"}},
		{"no arm", "union u switch (int a) { int b; };", []string{"1:26: case or default expected, not 'int'"}},
		{"void typedef", "typedef void;", []string{"1:9: a typedef cannot be void"}},
		{"opaque argument", "program P { version V { void F(opaque) = 1; } = 1; } = 1;", []string{"1:32: opaque cannot be an argument or result"}},
		{"void among arguments", "program P { version V { void F(int, void) = 1; } = 1; } = 1;", []string{"1:37: void among other arguments"}},
		{"end of the file", "struct s { int a;", []string{"1:18: a type expected, not the end of the file"}},
		{"two faults", "const A = ;\nconst B 2;\nconst C = 3;", []string{"1:11: its value expected, not ';'", "2:9: '=' expected after const B, not '2'"}},
		// What the checker sees.
		{"undeclared type", "struct s { nope a; };", []string{"1:12: type 'nope' is not declared"}},
		{"undeclared constant", "struct s { int a<NOPE>; };", []string{"1:18: constant 'NOPE' is not declared"}},
		{"type twice", "struct s { int a; };\nenum s { A };", []string{"2:6: type 's' is declared in line 1 already"}},
		{"constant twice", "const A = 1;\nenum e { A };", []string{"2:10: constant 'A' is declared in line 1 already"}},
		{"TRUE", "const TRUE = 1;", []string{"1:7: 'TRUE' is a word of the language"}},
		{"field twice", "struct s { int a; int a; };", []string{"1:23: struct s has a field 'a' in line 1 already"}},
		{"negative bound", "struct s { int a<-1>; };", []string{"1:18: the bound of 'a' is -1: not in 0 to 4294967295"}},
		{"bound above 32 bits", "struct s { int a<4294967296>; };", []string{"1:18: the bound of 'a' is 4294967296"}},
		{"huge fixed array", "struct s { opaque a[0xffffffff]; };", []string{"1:21: the size of 'a' is 4294967295: not in 0 to 67108864"}},
		{"not a number", "const A = 12ab;", []string{"1:11: '12ab' is not a number"}},
		{"not an octal number", "const A = 08;", []string{"1:11: '08' is not a number"}},
		{"Go's numbers", "const A = 0b1; \nconst B = 1_0;", []string{"1:11: '0b1' is not a number", "2:11: '1_0' is not a number"}},
		{"constant above 64 bits", "const A = 0x10000000000000000;", []string{"1:11: constant 'A' does not fit 64 bits"}},
		{"tag above 32 bits", "enum e { A = 0x80000000 };", []string{"1:14: tag 'A' is 2147483648"}},
		{"constants in a circle", "const A = B;\nconst B = A;", []string{"1:11: the value of 'B' depends on itself", "2:11: the value of 'A' depends on itself"}},
		{"infinite struct", "struct a { b x; };\nstruct b { a y[2]; };", []string{"2:14: 'b' contains itself: its size is infinite"}},
		{"infinite union", "union u switch (int a) { case 1: u again; default: void; };", []string{"1:36: 'u' contains itself"}},
		{"typedefs in a circle", "typedef a b;\ntypedef b *a;", []string{"2:12: 'a' contains itself"}},
		{"case twice", "union u switch (int a) { case 1: case 0x1: void; };", []string{"1:39: union u has a case 0x1 in line 1 already"}},
		{"case that no tag has", "enum e { A };\nunion u switch (e a) { case 3: void; };", []string{"2:29: case 3: enum e has no such value"}},
		{"case out of range", "union u switch (unsigned a) { case -1: void; };", []string{"1:36: case -1 is -1: not in 0 to 4294967295"}},
		{"discriminant", "union u switch (float f) { default: void; };", []string{"1:17: the discriminant of union u is not an integer, bool or enum"}},
		{"discriminant array", "union u switch (int f<>) { default: void; };", []string{"1:17: the discriminant of union u is an array or a pointer"}},
		{"arm with the discriminant's name", "union u switch (int a) { case 1: int a; };", []string{"1:38: union u has a field 'a'"}},
		{"procedure number twice", "program P { version V { void F(void) = 1; void G(void) = 1; } = 1; } = 1;", []string{"1:58: version V has a procedure 1 already"}},
		{"procedure name twice", "program P { version V { void F(void) = 1; void F(int) = 2; } = 1; } = 1;", []string{"1:48: version V has a procedure 'F' already", "1:57: procedure 'F' is number 1 in another version"}},
		{"version number twice", "program P { version V { } = 1; version W { } = 1; } = 1;", []string{"1:48: program P has a version 1 already"}},
		{"program number", "program P { version V { } = 1; } = -1;", []string{"1:36: program P is -1"}},
		{"procedure and constant", "const F = 1;\nprogram P { version V { void F(void) = 1; } = 1; } = 1;", []string{"2:30: procedure 'F' has the name of a constant"}},
		{"all at once", "struct s { nope a; nope2 b; };\nconst A = NONE;", []string{"1:12: type 'nope'", "1:20: type 'nope2'", "2:11: constant 'NONE'"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			outs, err := rpcgen.Generate(rpcgen.Options{File: "dir/f.x", Source: c.src})
			require.Nil(t, outs)
			var list rpcgen.ErrorList
			require.ErrorAs(t, err, &list)
			got := strings.Split(err.Error(), "\n")
			require.Len(t, got, len(c.want), "%v", err)
			for i, want := range c.want {
				require.Truef(t, strings.HasPrefix(got[i], "dir/f.x:"+want), "got  %s\nwant %s", got[i], want)
			}
		})
	}
}

func TestExcerpt(t *testing.T) {
	_, err := rpcgen.Generate(rpcgen.Options{File: "f.x", Source: "const A = 1;\r\nstruct s {\tint \tb<NOPE>; }; /* é */\r\n"})
	var list rpcgen.ErrorList
	require.ErrorAs(t, err, &list)
	require.Equal(t, "struct s {\tint \tb<NOPE>; }; /* é */\n          \t    \t  ^\n", list[0].Excerpt())
	require.Empty(t, (&rpcgen.Error{}).Excerpt())
}

func TestManyErrorsAreCutOff(t *testing.T) {
	_, err := rpcgen.Generate(rpcgen.Options{File: "f.x", Source: strings.Repeat("@", 10_000)})
	var list rpcgen.ErrorList
	require.ErrorAs(t, err, &list)
	require.Len(t, list, 50)
}
