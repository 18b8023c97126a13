#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""ring-read.py FILE [DEPTH] - reads a file of an nfsrdma-fuse mount by a ring, DEPTH pieces at a time.

Prints its length, the sum of its bytes, and how fast that was. What the server sends comes straight into the
memory that `memory` below is a view of: an array of numpy's if there is numpy, else a memoryview.
"""
import ctypes
import os
import sys
import time

try:
    import numpy
except ImportError:
    numpy = None

PIECE = 1 << 20

lib = ctypes.CDLL("libnfsrdma.so.0")
Pointer, Out = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
u32, u64 = ctypes.c_uint32, ctypes.c_uint64


class Done(ctypes.Structure):
    _fields_ = [("user_data", u64), ("result", ctypes.c_int64)]


lib.nfsrdma_connect.argtypes = [ctypes.c_int, Out]
lib.nfsrdma_disconnect.argtypes = [Pointer]
lib.nfsrdma_disconnect.restype = None
lib.nfsrdma_why.restype = ctypes.c_char_p
lib.nfsrdma_memory_new.argtypes = [Pointer, ctypes.c_size_t, Out]
lib.nfsrdma_memory_at.argtypes = [Pointer]
lib.nfsrdma_memory_at.restype = Pointer
lib.nfsrdma_queue_new.argtypes = [Pointer, ctypes.c_uint, Out]
lib.nfsrdma_attach.argtypes = [Pointer, ctypes.c_int, ctypes.POINTER(u32)]
lib.nfsrdma_read.argtypes = [Pointer, u32, Pointer, u64, u32, u64, u64]
lib.nfsrdma_wait.argtypes = [Pointer, ctypes.POINTER(Done), ctypes.c_uint, ctypes.c_uint, ctypes.c_int]


def must(result, what):
    """What fails returns -errno, and nfsrdma_why() says more."""
    if result < 0:
        sys.exit(f"ring-read.py: {what}: {os.strerror(-result)} ({lib.nfsrdma_why().decode()})")
    return result


def new(function, what, *args):
    out = Pointer()
    must(function(*args, ctypes.byref(out)), what)
    return out


def view(at, length):
    raw = (ctypes.c_ubyte * length).from_address(at)
    return numpy.frombuffer(raw, dtype=numpy.uint8) if numpy else memoryview(raw).cast("B")


def total(piece):
    return int(piece.sum(dtype=numpy.uint64)) if numpy else sum(piece)


def read_all(fd, session, depth):
    """The sum of the file's bytes."""
    memory = new(lib.nfsrdma_memory_new, "memory", session, depth * PIECE)
    queue = new(lib.nfsrdma_queue_new, "queue", session, max(2, 1 << (depth - 1).bit_length()))
    number = u32()
    must(lib.nfsrdma_attach(queue, fd, ctypes.byref(number)), "attach")
    data = view(lib.nfsrdma_memory_at(memory), depth * PIECE)
    done = (Done * depth)()
    length, offset, under_way, result = os.fstat(fd).st_size, 0, 0, 0
    free = list(range(depth))
    while offset < length or under_way:
        while free and offset < length:
            piece = free.pop()
            must(lib.nfsrdma_read(queue, number, memory, piece * PIECE, PIECE, offset, piece), "read")
            offset += PIECE
            under_way += 1
        for i in range(must(lib.nfsrdma_wait(queue, done, 1, depth, -1), "wait")):
            piece, count = done[i].user_data, must(done[i].result, "reading")
            result += total(data[piece * PIECE:piece * PIECE + count])
            free.append(piece)
            under_way -= 1
    return result


def main():
    depth = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    if len(sys.argv) < 2 or not 1 <= depth <= 4096:
        sys.exit("usage: ring-read.py FILE [DEPTH, 1 to 4096]")
    with open(sys.argv[1], "rb", buffering=0) as f:
        session = new(lib.nfsrdma_connect, "connect", f.fileno())
        begin = time.monotonic()
        result = read_all(f.fileno(), session, depth)
        took = time.monotonic() - begin
        length = os.fstat(f.fileno()).st_size
        lib.nfsrdma_disconnect(session)
    print(f"{length} bytes, sum {result}, {length / 1e6 / took:.0f} MB/s")


if __name__ == "__main__":
    main()
