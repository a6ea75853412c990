package platform

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ethSSFeatures is ETH_SS_FEATURES, the string set that names the switches
// (linux/ethtool.h).
const ethSSFeatures = 4

// ethStringLen is ETH_GSTRING_LEN, the room for one name, in bytes.
const ethStringLen = 32

func interfaceOffloads(name string) (Offloads, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if errors.Is(err, unix.EAFNOSUPPORT) {
		fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("offloads of %s: %w", name, err)
	}
	defer closeProbe(fd)
	o, err := readOffloads(func(b []byte) error { return ethtool(fd, name, b) })
	if err != nil {
		return nil, fmt.Errorf("offloads of %s: %w", name, err)
	}
	return o, nil
}

// readOffloads asks for the number of switches, their names, and their states.
// ask hands a structure, which starts with its command number, to the kernel
// and finds the answer in the same place.
func readOffloads(ask func(b []byte) error) (Offloads, error) {
	n, err := featureCount(ask)
	if err != nil {
		return nil, err
	}
	names, err := featureNames(ask, n)
	if err != nil {
		return nil, err
	}
	blocks := (n + 31) / 32
	// struct ethtool_gfeatures { __u32 cmd, size; struct { __u32 available,
	// requested, active, never_changed; } features[size]; };
	b := make([]byte, 8+16*blocks)
	putU32(b, 0, unix.ETHTOOL_GFEATURES)
	putU32(b, 4, uint32(blocks))
	if err := ask(b); err != nil {
		return nil, fmt.Errorf("feature states: %w", err)
	}
	out := make(Offloads, n)
	for i, name := range names {
		if name == "" {
			continue
		}
		bit := func(word int) bool { return getU32(b, 8+16*(i/32)+4*word)&(1<<(i%32)) != 0 }
		out[name] = OffloadState{Available: bit(0), Active: bit(2), Fixed: bit(3) || !bit(0)}
	}
	return out, nil
}

func featureCount(ask func(b []byte) error) (int, error) {
	// struct ethtool_sset_info { __u32 cmd, reserved; __u64 sset_mask; __u32 data[]; };
	b := make([]byte, 16+4)
	putU32(b, 0, unix.ETHTOOL_GSSET_INFO)
	binary.NativeEndian.PutUint64(b[8:], 1<<ethSSFeatures)
	if err := ask(b); err != nil {
		return 0, fmt.Errorf("feature count: %w", err)
	}
	n := int(getU32(b, 16))
	if n == 0 || n > 1024 {
		return 0, fmt.Errorf("feature count: %d", n)
	}
	return n, nil
}

func featureNames(ask func(b []byte) error, n int) ([]string, error) {
	// struct ethtool_gstrings { __u32 cmd, string_set, len; __u8 data[]; };
	b := make([]byte, 12+n*ethStringLen)
	putU32(b, 0, unix.ETHTOOL_GSTRINGS)
	putU32(b, 4, ethSSFeatures)
	putU32(b, 8, uint32(n))
	if err := ask(b); err != nil {
		return nil, fmt.Errorf("feature names: %w", err)
	}
	names := make([]string, n)
	for i := range names {
		names[i] = unix.ByteSliceToString(b[12+i*ethStringLen : 12+(i+1)*ethStringLen])
	}
	return names, nil
}

func putU32(b []byte, at int, v uint32) { binary.NativeEndian.PutUint32(b[at:], v) }

func getU32(b []byte, at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }

// ethtool performs the ioctl SIOCETHTOOL on the interface with the structure b.
func ethtool(fd int, name string, b []byte) error {
	// struct ifreq { char ifr_name[16]; union { void *ifr_data; ...24 bytes }; };
	var req struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}
	if len(name) >= len(req.name) {
		return fmt.Errorf("interface name %q is too long", name)
	}
	copy(req.name[:], name)
	req.data = unsafe.Pointer(&b[0])
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req)))
	runtime.KeepAlive(b)
	if errno != 0 {
		return errno
	}
	return nil
}
