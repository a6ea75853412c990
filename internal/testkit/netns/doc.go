// Package netns makes network namespaces for tests: alone, or two joined by a
// virtual cable whose MTU, speed and offloads the test chooses. It needs root
// and Linux; on other systems the package is empty. It is imported by tests
// only.
package netns
