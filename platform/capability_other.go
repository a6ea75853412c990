//go:build !linux

package platform

func hasCapability(Capability) Answer { return No }

func initialUserNamespace() Answer { return Yes }

func initialNetNamespace() Answer { return Yes }
