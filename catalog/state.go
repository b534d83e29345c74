package catalog

// String is the state as people read it.
func (s State) String() string {
	switch s {
	case Joining:
		return "joining"
	case Serving:
		return "serving"
	}
	return "down"
}
