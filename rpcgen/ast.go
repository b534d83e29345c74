package rpcgen

// file is a parsed .x file, with what it includes.
type file struct {
	decls []decl
	tail  []comment // after the last declaration
	// unsure are names in parts that could not be read: they may be declared there.
	unsure map[string]bool
}

// decl is one declaration at the top of a file.
type decl interface{ head() *declHead }

// declHead is what all declarations have.
type declHead struct {
	name string
	pos  Pos // of the name
	in   modes
	docs docs
	// A body that stands where a type is used, without a name of its own, is
	// called after the declaration and the field around it.
	anonymous bool
	parent    *declHead
	field     string
}

// nameAnonymous gives h its name.
func (h *declHead) nameAnonymous() string {
	if h.name == "" && h.parent != nil {
		h.name = h.parent.nameAnonymous() + "_" + h.field
	}
	return h.name
}

func (h *declHead) head() *declHead { return h }

// docs are the comments of a declaration, field, tag or procedure.
type docs struct {
	apart []comment // before it, with an empty line between
	lead  []string  // directly before it
	tail  []string  // after it on its line
}

// value is a number, a string or the name of a constant, as written.
type value struct {
	text     string
	isString bool
	pos      Pos
}

type constDecl struct {
	declHead
	val value
}

type enumDecl struct {
	declHead
	tags []*enumTag
	rest []comment // after the last tag
}

type enumTag struct {
	name string
	pos  Pos
	docs docs
	val  *value // nil: one more than the tag before
	num  int64  // set by check
}

type structDecl struct {
	declHead
	fields []*field
	rest   []comment // after the last field
	list   bool      // the last field is the next node: set by check
}

type unionDecl struct {
	declHead
	disc  *field
	arms  []*arm
	deflt *arm      // nil where there is none
	rest  []comment // after the last arm
}

// arm is one arm of a union; its field is nil for void.
type arm struct {
	labels []value
	field  *field
	docs   docs
}

type typedefDecl struct {
	declHead
	field *field
}

type programDecl struct {
	declHead
	versions []*version
	num      value
}

type version struct {
	name  string
	pos   Pos
	docs  docs
	procs []*proc
	num   value
}

type proc struct {
	name   string
	pos    Pos
	docs   docs
	result *field
	args   []*field // empty: void
	num    value
}

// shape is how many of its type a field holds.
type shape int

const (
	one      shape = iota
	optional       // T *x
	fixed          // T x[n]
	variable       // T x<n>
)

// basic is a built-in type.
type basic int

const (
	named basic = iota // not built in: typeRef.name says which
	void
	boolean
	int32Type
	uint32Type
	int64Type
	uint64Type
	int8Type // those of 8 and 16 bits take 4 bytes on the wire
	uint8Type
	int16Type
	uint16Type
	float
	double
	quadruple
	text // string
	opaque
)

// typeRef is a type that is used.
type typeRef struct {
	basic basic
	name  string // of a named type, or of a built-in one that a file may declare itself
	pos   Pos
	body  decl // declared on the spot
	decl  decl // of a named type: set by check
}

// field is a declaration inside another: a struct's field, a union's arm or
// discriminant, a typedef's new type, a procedure's argument or result.
type field struct {
	typ   typeRef
	shape shape
	bound *value // nil: none
	name  string
	pos   Pos
	docs  docs
	size  uint32 // the bound as a number, 2^32-1 where there is none: set by check
}
