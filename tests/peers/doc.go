// Package peers measures a cluster beside other systems on the same data, in one
// run: every answer is compared with theirs.
package peers
