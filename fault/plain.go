package fault

import "regexp"

// Plain is a message without the names of the packages that an error went
// through: they stand at its beginning, at that of a line, and where an error was
// put in: after a mark or a parenthesis.
func Plain(message string) string { return packages.ReplaceAllString(message, "$1") }

var packages = regexp.MustCompile(`(?m)(^|[:;,] |\()(?:(?:catalog|client|delegate|disk|fault|health|master|peer|portmap|replica|router|rows|rpc|slave|store|vector|xdr): )+`)
