package netns

import (
	"bytes"
	"fmt"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Numbers of include/uapi/linux/ethtool.h.
const (
	ethtoolGetStringCount = 0x37 // ETHTOOL_GSSET_INFO
	ethtoolGetStrings     = 0x1b // ETHTOOL_GSTRINGS
	ethtoolSetFeatures    = 0x3b // ETHTOOL_SFEATURES
	featureStrings        = 4    // ETH_SS_FEATURES
	stringSize            = 32   // ETH_GSTRING_LEN
)

// Offload switches an offload of an interface by the kernel's name, such as
// "tx-generic-segmentation" or "tx-udp-segmentation".
func (n *Namespace) Offload(t testing.TB, link, name string, on bool) {
	t.Helper()
	n.Run(t, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		names, err := features(fd, link)
		if err != nil {
			return fmt.Errorf("features of %s: %w", link, err)
		}
		for i, have := range names {
			if have == name {
				return setFeature(fd, link, i, len(names), on)
			}
		}
		return fmt.Errorf("%s has no feature %s", link, name)
	})
}

// features returns the names of all features, in the order of their bits.
func features(fd int, link string) ([]string, error) {
	// struct ethtool_sset_info { u32 cmd; u32 reserved; u64 sset_mask; u32 data[]; }
	info := struct {
		cmd, reserved uint32
		mask          uint64
		count         uint32
		_             uint32
	}{cmd: ethtoolGetStringCount, mask: 1 << featureStrings}
	if err := ethtool(fd, link, unsafe.Pointer(&info)); err != nil {
		return nil, err
	}
	// struct ethtool_gstrings { u32 cmd; u32 string_set; u32 len; u8 data[]; }
	buf := make([]uint32, 3+int(info.count)*stringSize/4)
	buf[0], buf[1], buf[2] = ethtoolGetStrings, featureStrings, info.count
	if err := ethtool(fd, link, unsafe.Pointer(&buf[0])); err != nil {
		return nil, err
	}
	text := unsafe.Slice((*byte)(unsafe.Pointer(&buf[3])), int(info.count)*stringSize)
	names := make([]string, info.count)
	for i := range names {
		name, _, _ := bytes.Cut(text[i*stringSize:(i+1)*stringSize], []byte{0})
		names[i] = string(name)
	}
	return names, nil
}

// setFeature: struct ethtool_sfeatures { u32 cmd; u32 size; struct { u32 valid;
// u32 requested; } features[]; }
func setFeature(fd int, link string, bit, bits int, on bool) error {
	words := (bits + 31) / 32
	buf := make([]uint32, 2+2*words)
	buf[0], buf[1] = ethtoolSetFeatures, uint32(words)
	buf[2+2*(bit/32)] = 1 << (bit % 32)
	if on {
		buf[3+2*(bit/32)] = 1 << (bit % 32)
	}
	return ethtool(fd, link, unsafe.Pointer(&buf[0]))
}

func ethtool(fd int, link string, arg unsafe.Pointer) error {
	// struct ifreq with its data pointer
	var req struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}
	copy(req.name[:], link)
	req.data = arg
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req)))
	if errno != 0 {
		return errno
	}
	return nil
}
