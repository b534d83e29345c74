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
		{"string without an end", "const A = \"open;\nconst B = 'x;\n", []string{"1:11: string without an end", "2:1: its value expected, not 'const'", "2:11: character without an end", "3:1: its value expected"}},
		{"not a character", "const A = 'ab';", []string{"1:11: 'ab' is not a character"}},
		{"a directive", "#once", []string{"1:1: #once: this directive is not known"}},
		{"no directive", "# (", []string{"1:1: # without a directive"}},
		{"#error", "#ifndef A\n# error A is wanted\n#endif", []string{"2:1: #error A is wanted"}},
		{"#if of nothing", "#if\n#endif", []string{"1:1: #if : a value is missing"}},
		{"#if too long", "#if 1 2\n#endif", []string{"1:1: #if 1 2: '2' is too much"}},
		{"#if unbalanced", "#if (1\n#elif defined(\n#endif", []string{"1:1: #if (1: ')' is missing", "2:1: #elif defined(: defined wants a name"}},
		{"#if of a string", "#if \"a\"\n#endif", []string{`1:1: #if "a": '"' is not a value`}},
		{"#if of a macro with arguments", "#define F(a) a\n#if F(1)\n#endif", []string{"2:1: #if F(1): F takes arguments"}},
		{"#endif alone", "#endif", []string{"1:1: #endif without #if"}},
		{"#elif after #else", "#if 1\n#else\n#elif 1\n#endif", []string{"3:1: #elif after the #else of the #if in line 1"}},
		{"#define without a name", "#define 1\n#define defined\n#undef\n#define F(1) 2", []string{"1:1: #define wants a name", "2:1: #define wants a name", "3:1: #undef wants one name", "4:1: #define F: its arguments are not names"}},
		{"arguments of a macro", "#define F(a) a\nconst A = F(1, 2);\nconst B = F(1;", []string{"2:11: F has 1 arguments, not 2", "2:18: its value expected, not ';'", "3:11: the arguments of F have no end in its line", "3:15: ';' expected"}},
		{"a macro without end", strings.Repeat("#define A B B B B B B B B B B B B B B B B B B B B\n#define B C C C C C C C C C C C C C C C C C C C C\n#define C D D D D D D D D D D D D D D D D D D D D\n#define D E E E E E E E E E E E E E E E E E E E E\n#define E\n", 1) + "const X = A 1;", []string{"6:11: more than 100000 macros replaced"}},
		{"#include of nothing", "#include stdio", []string{`1:1: #include wants "FILE" or <FILE>`}},
		{"#include of a header", "#include <rpc/rpc.h>", []string{"1:1: #include <rpc/rpc.h> is a C header, which has no XDR: put % before the #"}},
		{"#include of what is not there", "#include \"nowhere.x\"", []string{`1:1: #include "nowhere.x" is not found in dir: -I DIR adds a folder`}},
		{"#ifdef without #endif", "#ifdef A\n#ifndef B", []string{"1:1: #ifdef without #endif", "2:1: #ifndef without #endif"}},
		{"#ifdef without a name", "#ifdef\n#endif", []string{"1:1: #ifdef wants one name"}},
		{"second #else", "#ifdef A\n#else\n#else\n#endif", []string{"3:1: #else after the #else of the #ifdef in line 1"}},
		{"#define of an expression", "#define A (1+2)\nconst B = A;", []string{`2:11: A is defined as "(1+2)": C rpcgen has no expressions, so '+' cannot stand here`}},
		// What the parser sees.
		{"no semicolon", "const A = 1\nconst B = 2;", []string{"2:1: ';' expected after the value, not 'const'"}},
		{"an unknown declaration", "class x { };", []string{"1:1: const, enum, struct, union, typedef or program expected, not 'class'"}},
		{"a namespace without an end", "namespace a:b { const A = 1;", []string{"1:13: ':' expected after ':', not 'b'"}},
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
		{"a struct as an argument", "program P { version V { void F(struct { int a; }) = 1; } = 1; } = 1;", []string{"1:32: the type of an argument or result needs a name"}},
		{"an expression", "const A = 1 + 2;", []string{"1:13: '+': no such character", "1:15: ';' expected after the value, not '2'"}},
		{"empty enum", "enum e { };", []string{"1:10: a tag expected, not '}'"}},
		{"void with a name", "struct s { void *a; int b; }; union u switch (void) { default: void; };", []string{"1:12: void takes no name: '*'", "1:47: the discriminant cannot be void"}},
		{"pointer to void", "program P { version V { void *F(void) = 1; } = 1; } = 1;", []string{"1:30: a pointer to void means nothing"}},
		{"faults in parts", "struct s { int a<; nope b; int; };\nenum e { 1, A = , B };\nunion u switch (e d) { case A int x; case B: void; case Z: nope c; };", []string{
			"1:18: the bound expected, not ';'", "1:20: type 'nope' is not declared", "1:31: a name expected, not ';'",
			"2:10: a tag expected, not '1'", "2:17: the tag's value expected, not ','", "3:31: ':' expected after 'A', not 'int'", "3:57: constant 'Z' is not declared", "3:60: type 'nope'"}},
		{"faults in procedures", "program P { version V { int F = 1; nope G(void) = 2; void H(void) = ; } = 1; version W { int I(void) = 1; }; } = 1;", []string{
			"1:31: '(' expected after F, not '='", "1:36: type 'nope'", "1:69: the procedure's number expected, not ';'", "1:108: '=' expected after '}', not ';'"}},
		{"what could not be read may be declared", "struct a ( int b; };\nstruct c { a d; };\nenum e { A 1, B };\nconst C = A;", []string{"1:10: '{' expected after struct a, not '('", "3:12: ',' expected after tag 'A', not '1'"}},
		{"second default", "union u switch (int a) { default: void; default: void; };", []string{"1:41: second default of union u"}},
		{"no arm", "union u switch (int a) { int b; };", []string{"1:26: case or default expected, not 'int'"}},
		{"no arms", "union u switch (int a) { };", []string{"1:26: union u has no arms: case or default expected"}},
		{"no arms in a field", "struct s { union switch (int a) { } b; };", []string{"1:35: union has no arms: case or default expected"}},
		{"void typedef", "typedef void;", []string{"1:9: a typedef cannot be void"}},
		{"opaque argument", "program P { version V { void F(opaque) = 1; } = 1; } = 1;", []string{"1:32: opaque cannot be an argument or result"}},
		{"array argument", "program P { version V { void F(int a<3>) = 1; void G(string s<8><9>) = 2; } = 1; } = 1;", []string{"1:37: an array cannot be an argument: typedef it", "1:65: an array cannot be an argument"}},
		{"pointer to string as argument", "program P { version V { void F(string a*) = 1; void G(string *b) = 2; } = 1; } = 1;", []string{"1:40: a pointer to string is not known: typedef it", "1:62: a pointer to string"}},
		{"void among arguments", "program P { version V { void F(int, void) = 1; } = 1; } = 1;", []string{"1:37: void among other arguments"}},
		{"end of the file", "struct s { int a;", []string{"1:18: a type expected, not the end of the file"}},
		{"two faults", "const A = ;\nconst B 2;\nconst C = 3;", []string{"1:11: its value expected, not ';'", "2:9: '=' expected after const B, not '2'"}},
		{"faults in a namespace", "namespace n {\n  struct a {\n    int b\n    enum c d;\n  };\n  struct e ( int f; };\n  enum c { C, };\n  typedef nope g;\n}", []string{"4:5: ';' expected after 'b'", "6:12: '{' expected after struct e", "8:11: type 'nope'"}},
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
		{"constant that Go does not take", "const A = 0x1" + strings.Repeat("0", 128) + ";", []string{"1:11: constant 'A' has 513 bits: Go has constants of at most 512"}},
		{"constant above 64 bits, used", "const A = 0x10000000000000000;\nstruct s { int a<A>; };", []string{"2:18: the bound of 'a' is 18446744073709551616: not in 0 to 4294967295"}},
		{"tag above 32 bits", "enum e { A = 0x80000000 };", []string{"1:14: tag 'A' is 2147483648"}},
		{"constants in a circle", "const A = B;\nconst B = A;", []string{"1:11: the value of 'B' depends on itself", "2:11: the value of 'A' depends on itself"}},
		{"infinite struct", "struct a { b x; };\nstruct b { a y[2]; };", []string{"2:14: 'b' contains itself: its size is infinite"}},
		{"infinite union", "union u switch (int a) { case 1: u again; default: void; };", []string{"1:36: 'u' contains itself: its size is infinite, in Go as in C, which compiles no such type; '*again' or 'again<>' may hold it, where the wire has the flag or the count"}},
		{"typedefs in a circle", "typedef a b;\ntypedef b *a;", []string{"2:12: 'a' contains itself: its size is infinite, in Go as in C, which compiles no such type; one of these typedefs has to be a struct"}},
		{"case twice", "union u switch (int a) { case 1: case 0x1: void; };", []string{"1:39: union u has a case 0x1 in line 1 already"}},
		{"case that no tag has", "enum e { A };\nunion u switch (e a) { case 3: void; };", []string{"2:29: case 3: enum e has no such value"}},
		{"case out of range", "union u switch (unsigned a) { case -1: void; };", []string{"1:36: case -1 is -1: not in 0 to 4294967295"}},
		{"discriminant", "union u switch (float f) { default: void; };", []string{"1:17: the discriminant of union u is not an integer, bool or enum"}},
		{"discriminant array", "union u switch (int f<>) { default: void; };", []string{"1:17: the discriminant of union u is an array or a pointer"}},
		{"arms with one name", "union u switch (int a) { case 1: int a; case 2: int a; };", []string{"1:53: union u has a field 'a' in line 1 already"}},
		{"a type of libtirpc", "struct s { netobj a; };", []string{"1:12: type 'netobj' is not declared: C has it from <rpc/rpc.h>; -import FILE.x, with its declaration, supplies it"}},
		{"a type of a C header", "%#include <a.h>\n %#include \"b.h\"\nstruct s { nope a[NONE]; };", []string{
			`3:12: type 'nope' is not declared: a C header may bring it (%#include <a.h> in line 1, "b.h" in line 2); -import FILE.x, with its declaration, supplies it`, "3:19: constant 'NONE' is not declared: a C header may bring it"}},
		{"a string as a number", "const A = \"a\";\nconst B = A;\nstruct s { int a<B>; };\nenum e { C = A };", []string{"3:18: 'B' is a string, not a number", "4:14: 'A' is a string, not a number"}},
		{"a string's escape", `const A = "\q";`, []string{"1:11: a string with an escape that Go does not have"}},
		{"procedure number twice", "program P { version V { void F(void) = 1; void G(void) = 1; } = 1; } = 1;", []string{"1:58: version V has a procedure 1 already"}},
		{"procedure name twice", "program P { version V { void F(void) = 1; void F(int) = 2; } = 1; } = 1;", []string{"1:48: version V has a procedure 'F' already"}},
		{"version number twice", "program P { version V { } = 1; version W { } = 1; } = 1;", []string{"1:48: version 1 of program 1 is declared in line 1 already"}},
		{"program number", "program P { version V { } = 1; } = -1;", []string{"1:36: program P is -1"}},
		{"program number twice", "program P { version V { } = 1; } = 7;\nprogram Q { version V { } = 1; } = 0x7;", []string{"2:29: version 1 of program 7 is declared in line 1 already"}},
		{"name of a version twice", "program P { version V { } = 1; } = 7;\nprogram Q { version V { } = 2; } = 7;", []string{"2:21: constant 'V' is declared in line 1 already"}},
		{"all at once", "struct s { nope a; nope2 b; };\nconst A = NONE;", []string{"1:12: type 'nope'", "1:20: type 'nope2'", "2:11: constant 'NONE'"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			outs, err := rpcgen.Generate(rpcgen.Options{File: "dir/f.x", Source: c.src})
			require.Error(t, err)
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
