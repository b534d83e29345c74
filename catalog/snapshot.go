package catalog

// Snapshot is one immutable view of the cluster.
type Snapshot struct{}
