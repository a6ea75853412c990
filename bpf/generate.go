package bpf

//go:generate go tool bpf2go -cc clang-14 -strip llvm-strip-14 -tags linux -target amd64,arm64 -output-stem probes -cflags "-O2 -mcpu=v2 -Wall -Wextra -Werror -Wno-unused-parameter -Wno-missing-declarations" -type histogram objects src/probes.bpf.c
