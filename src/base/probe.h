/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Places in the program to which bpftrace, perf or systemtap may attach (USDT); doc/probes.md has the table. One is
 * a nop and a note in the ELF file while nobody is attached. Arguments are numbers and pointers that are at hand:
 * what has to be looked up for a probe alone would be looked up for nobody. Without <sys/sdt.h>, or with
 * --disable-usdt, a probe is nothing, and its arguments are not evaluated.
 */
#pragma once

#include "config.h"

#ifdef HAVE_USDT
#include <sys/sdt.h>
#define PROBE2(name, a, b)          DTRACE_PROBE2(nfsrdma, name, a, b)
#define PROBE3(name, a, b, c)       DTRACE_PROBE3(nfsrdma, name, a, b, c)
#define PROBE4(name, a, b, c, d)    DTRACE_PROBE4(nfsrdma, name, a, b, c, d)
#define PROBE5(name, a, b, c, d, e) DTRACE_PROBE5(nfsrdma, name, a, b, c, d, e)
#else
#define PROBE2(name, a, b)          ((void)sizeof(a), (void)sizeof(b))
#define PROBE3(name, a, b, c)       (PROBE2(name, a, b), (void)sizeof(c))
#define PROBE4(name, a, b, c, d)    (PROBE3(name, a, b, c), (void)sizeof(d))
#define PROBE5(name, a, b, c, d, e) (PROBE4(name, a, b, c, d), (void)sizeof(e))
#endif
