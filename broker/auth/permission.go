package auth

import (
	"fmt"
	"strings"
)

// Action is what a permission allows.
type Action string

// The data path asks for the first four. The others are valid in a token and
// are never asked for by the broker: holding tenant.manage implies nothing
// here, since whoever signs a token expands such grants before signing.
const (
	ActionStreamPublish        Action = "stream.publish"
	ActionStreamSubscribe      Action = "stream.subscribe"
	ActionCacheRead            Action = "cache.read"
	ActionCacheWrite           Action = "cache.write"
	ActionRBACView             Action = "rbac.view"
	ActionRBACPolicyManage     Action = "rbac.policy.manage"
	ActionRBACAssignmentManage Action = "rbac.assignment.manage"
	ActionTenantManage         Action = "tenant.manage"
	ActionNamespaceManage      Action = "ns.manage"
	ActionStreamManage         Action = "stream.manage"
	ActionCacheManage          Action = "cache.manage"
)

// Known reports whether a is one of the actions listed above.
func (a Action) Known() bool {
	switch a {
	case ActionStreamPublish, ActionStreamSubscribe, ActionCacheRead, ActionCacheWrite,
		ActionRBACView, ActionRBACPolicyManage, ActionRBACAssignmentManage,
		ActionTenantManage, ActionNamespaceManage, ActionStreamManage, ActionCacheManage:
		return true
	}
	return false
}

// Permission allows one action on every resource that matches a pattern. In
// the pattern "*" stands for zero or more bytes, "/" included; every other
// byte stands for itself.
type Permission struct {
	Action   Action
	Resource string
}

// ParsePermission reads "action:resource", split at the first colon. The error
// wraps [ErrBadPermission], or [ErrUnknownAction] if only the action is new.
func ParsePermission(s string) (Permission, error) {
	action, resource, ok := strings.Cut(s, ":")
	if !ok || action == "" || resource == "" {
		return Permission{}, fmt.Errorf("permission %q: %w", s, ErrBadPermission)
	}
	p := Permission{Action: Action(action), Resource: resource}
	if !p.Action.Known() {
		return p, fmt.Errorf("permission %q: %w", s, ErrUnknownAction)
	}
	return p, nil
}

// String returns the form that [ParsePermission] reads.
func (p Permission) String() string { return string(p.Action) + ":" + p.Resource }

// Allows reports whether p covers action a on resource.
func (p Permission) Allows(a Action, resource string) bool {
	return p.Action == a && Match(p.Resource, resource)
}

// StreamResource names a stream as permissions do:
// "stream:tenant/namespace/stream".
func StreamResource(tenant, namespace, stream string) string {
	return "stream:" + tenant + "/" + namespace + "/" + stream
}

// CacheResource names a cache as permissions do:
// "cache:tenant/namespace/cache".
func CacheResource(tenant, namespace, cache string) string {
	return "cache:" + tenant + "/" + namespace + "/" + cache
}

// Match reports whether s matches pattern, in which "*" stands for zero or
// more bytes. Comparison is by byte and case-sensitive. It does not allocate.
func Match(pattern, s string) bool {
	var p, i int
	star, resume := -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, resume = p, i
			p++
		case p < len(pattern) && pattern[p] == s[i]:
			p++
			i++
		case star >= 0:
			// The last star takes one byte more.
			resume++
			p, i = star+1, resume
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
