package tirpc

// A Node is one (machine, vector id) of a list.
type Node struct {
	Machine string
	ID      uint64
}

// BenchMachine is the machine of every node in TimeEncode and TimeDecode; their
// ids are 0, 1, 2... and the word is 1.
const BenchMachine = "127.0.0.2"
