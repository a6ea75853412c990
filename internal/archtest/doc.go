// Package archtest keeps the rules of the repository as tests: which package
// may import which, where folders may stand, how packages are documented.
package archtest
