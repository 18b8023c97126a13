/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The options that name the ends of paths: what is understood, and the exact words about what
 * is not. test_setup.c has what is made of them.
 */
#include "options.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/sock.h"

static struct options o;
static struct errbuf eb;

static void cleanup(void)
{
	options_free(&o);
}

static int parse(const char *opts)
{
	const char *argv[] = { "nfsrdma-fuse", "srv:/e", "/mnt", "-o", opts, NULL };

	options_free(&o);
	eb.text[0] = '\0';
	return options_parse(&o, 5, (char *const *)argv, &eb);
}

#define OK(opts) cr_assert_eq(parse(opts), 0, "-o %s: %s", opts, eb.text)
#define BAD(opts, words) \
	do { \
		cr_assert_eq(parse(opts), -EINVAL, "-o %s was accepted", opts); \
		cr_assert_str_eq(eb.text, words, "-o %s:\n%s\nnot\n%s", opts, eb.text, words); \
	} while (0)

/* The ends as one text, with spaces. */
static const char *ends(const struct opt_ends *e)
{
	static char text[NFS_PATHS_MAX * OPT_END_SIZE];

	text[0] = '\0';
	for (unsigned i = 0; i < e->n; i++) {
		strcat(text, i ? " " : "");
		strcat(text, e->text[i]);
	}
	return text;
}

#define REMOTE(value, want) \
	do { \
		OK("remoteports=" value); \
		cr_expect_str_eq(ends(&o.remoteports), want, "%s", ends(&o.remoteports)); \
	} while (0)
#define LOCAL(value, want) \
	do { \
		OK("localports=" value); \
		cr_expect_str_eq(ends(&o.localports), want, "%s", ends(&o.localports)); \
	} while (0)

TestSuite(options_paths, .fini = cleanup, .timeout = 300);

Test(options_paths, addresses)
{
	OK("addr=10.0.0.1");
	cr_expect_str_eq(ends(&o.remoteports), "10.0.0.1");
	OK("addr=[fe80::1%eth0]");
	cr_expect_str_eq(ends(&o.remoteports), "fe80::1%eth0");
	OK("addr=a,addr=srv-5.example_x");
	cr_expect_str_eq(ends(&o.remoteports), "srv-5.example_x");
	OK("addr=10.0.0.1,localports=10.0.1.1");
	/* A host may have a name of 255 bytes, and in other letters. */
	OK("addr=b\xc3\xbc" "cher");
	cr_expect_str_eq(ends(&o.remoteports), "b\xc3\xbc" "cher");
}

#define NOT_ADDR(opt, value) \
	BAD(opt "=" value, "option " opt ": '" value "' is not an IPv4 or IPv6 address, " \
	    "a range of them, or a host's name (write A-B~C)")

Test(options_paths, no_addresses)
{
	char opts[400] = "addr=";

	NOT_ADDR("addr", "10.0.0.256");
	NOT_ADDR("addr", "10.0.0");
	NOT_ADDR("addr", "fe80::1%");
	NOT_ADDR("addr", "fe80::1::2");
	NOT_ADDR("addr", "[]");
	NOT_ADDR("addr", "[10.0.0.1");
	NOT_ADDR("addr", "a b");
	memset(opts + 5, 'a', 255);
	OK(opts);
	memset(opts + 5, 'a', 256);
	cr_expect_eq(parse(opts), -EINVAL);
	cr_expect(strstr(eb.text, "or a host's name"), "%s", eb.text);
	cr_expect_eq(parse("addr9=10.0.0.1"), -EINVAL);
	cr_expect(strstr(eb.text, "'addr9' is not known"), "%s", eb.text);
	cr_expect_eq(parse("addr1=10.0.0.1"), -EINVAL);
	/* What there was until there were lists. */
	BAD("addr2=10.0.0.2", "option addr2: several addresses of the server are one list: "
	    "remoteports=ADDR~ADDR2~..");
	BAD("addr=10.0.0.1,addr8=srv", "option addr8: several addresses of the server are one list: "
	    "remoteports=ADDR~ADDR2~..");
}

Test(options_paths, ranges)
{
	REMOTE("10.0.0.1", "10.0.0.1");
	REMOTE("10.0.0.1-10.0.0.1", "10.0.0.1");
	REMOTE("10.0.0.1-10.0.0.2~10.0.1.7~10.0.2.8-10.0.2.9",
	       "10.0.0.1 10.0.0.2 10.0.1.7 10.0.2.8 10.0.2.9");
	REMOTE("10.0.0.254-10.0.1.1", "10.0.0.254 10.0.0.255 10.0.1.0 10.0.1.1");
	REMOTE("255.255.255.254-255.255.255.255", "255.255.255.254 255.255.255.255");
	REMOTE("10.0.0.1-10.0.0.8", "10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.6 10.0.0.7 "
	       "10.0.0.8");
	REMOTE("fd00::9-fd00::b", "fd00::9 fd00::a fd00::b");
	REMOTE("[fd00::9]-[fd00::a]~[fd00::1]", "fd00::9 fd00::a fd00::1");
	REMOTE("fd00::ff-fd00::101", "fd00::ff fd00::100 fd00::101");
	REMOTE("fd00::fffe-fd00::ffff", "fd00::fffe fd00::ffff");
	/* A '-' that is no range's. */
	REMOTE("fe80::1%br-lan-fe80::3%br-lan", "fe80::1%br-lan fe80::2%br-lan fe80::3%br-lan");
	REMOTE("fe80::1%br-lan", "fe80::1%br-lan");
	REMOTE("::1~10.0.0.1", "::1 10.0.0.1");
	/* Hosts. */
	REMOTE("srv-5.example_x~10.0.0.1-10.0.0.2~b\xc3\xbc" "cher",
	       "srv-5.example_x 10.0.0.1 10.0.0.2 b\xc3\xbc" "cher");
	/* The last one counts, and nothing of those before. */
	OK("remoteports=10.0.0.1-10.0.0.4,remoteports=10.0.0.9");
	cr_expect_str_eq(ends(&o.remoteports), "10.0.0.9");
	/* In hexadecimal as long as can be. */
	REMOTE("1111:2222:3333:4444:5555:6666:7777:8888-1111:2222:3333:4444:5555:6666:7777:8889",
	       "1111:2222:3333:4444:5555:6666:7777:8888 1111:2222:3333:4444:5555:6666:7777:8889");
	REMOTE("fe80:2222:3333:4444:5555:6666:1.2.3.4%interface-of-15-fe80:2222:3333:4444:5555:6666:"
	       "1.2.3.5%interface-of-15", "fe80:2222:3333:4444:5555:6666:1.2.3.4%interface-of-15 "
	       "fe80:2222:3333:4444:5555:6666:102:305%interface-of-15");
}

Test(options_paths, local_ends)
{
	LOCAL("eth0~10.0.0.1-10.0.0.2~br-lan~10.0.0.9", "eth0 10.0.0.1 10.0.0.2 br-lan 10.0.0.9");
	LOCAL("eth0.100~enp65s0f0np0", "eth0.100 enp65s0f0np0");
	LOCAL("interface-of-15", "interface-of-15");
	LOCAL("a~b~c~d~e~f~g~h", "a b c d e f g h");
}

Test(options_paths, no_ranges)
{
#define R "option remoteports: "
	BAD("remoteports=10.0.0.1-10.0.0.9",
	    R "'10.0.0.1-10.0.0.9' names 9 addresses, and a mount has at most 8 paths");
	BAD("remoteports=10.0.0.1-10.0.0.5~10.0.1.1-10.0.1.15",
	    R "'10.0.0.1-10.0.0.5~10.0.1.1-10.0.1.15' names 20 addresses, and a mount has at most 8 paths");
	BAD("remoteports=0.0.0.0-255.255.255.255~0.0.0.0-255.255.255.255",
	    R "'0.0.0.0-255.255.255.255~0.0.0.0-255.255.255.255' names 8589934592 addresses, and a mount "
	    "has at most 8 paths");
	BAD("remoteports=fd00::-fd00::ffff",
	    R "'fd00::-fd00::ffff' names 65536 addresses, and a mount has at most 8 paths");
	BAD("localports=a~b~c~d~e~f~g~h~i", "option localports: 'a~b~c~d~e~f~g~h~i' names 9 addresses, "
	    "and a mount has at most 8 paths");
	BAD("remoteports=10.0.0.9-10.0.0.1",
	    R "'10.0.0.9-10.0.0.1' is not a range: it runs backwards (the lower address comes first)");
	BAD("remoteports=10.0.0.1~[fd00::2]-fd00::1",
	    R "'[fd00::2]-fd00::1' is not a range: it runs backwards (the lower address comes first)");
	BAD("remoteports=200.0.0.1-100.0.0.1",
	    R "'200.0.0.1-100.0.0.1' is not a range: it runs backwards (the lower address comes first)");
	BAD("remoteports=10.0.0.1-fd00::1",
	    R "'10.0.0.1-fd00::1' is not a range: one end is an IPv4 address, the other an IPv6 address");
	BAD("remoteports=fd00::1-fd00::1:2",
	    R "'fd00::1-fd00::1:2' is not a range: its ends differ in more than the last part of the address");
	BAD("remoteports=fe80::1%a-fe80::2%b",
	    R "'fe80::1%a-fe80::2%b' is not a range: its ends are on different interfaces");
	BAD("remoteports=fe80::1%a-fe80::2",
	    R "'fe80::1%a-fe80::2' is not a range: its ends are on different interfaces");
	BAD("remoteports=10.0.0.5-9", R "what follows the '-' in '10.0.0.5-9' is not an IPv4 or IPv6 "
	    "address (write both ends in full)");
	BAD("localports=10.0.0.5-eth0", "option localports: what follows the '-' in '10.0.0.5-eth0' is "
	    "not an IPv4 or IPv6 address (write both ends in full)");
	BAD("remoteports=10.0.0.1-10.0.0.2-10.0.0.3", R "what follows the '-' in "
	    "'10.0.0.1-10.0.0.2-10.0.0.3' is not an IPv4 or IPv6 address (write both ends in full)");
	BAD("remoteports=~10.0.0.1", R "an address is missing before a '~' in '~10.0.0.1'");
	BAD("remoteports=10.0.0.1~", R "an address is missing after a '~' in '10.0.0.1~'");
	BAD("remoteports=10.0.0.1~~10.0.0.2",
	    R "an address is missing after a '~' in '10.0.0.1~~10.0.0.2'");
	BAD("remoteports=10.0.0.1/24",
	    R "'10.0.0.1/24' is not an IPv4 or IPv6 address, a range of them, or a host's name (write A-B~C)");
	BAD("remoteports=10.0.0", R "'10.0.0' is not an IPv4 or IPv6 address, a range of them, or a host's "
	    "name (write A-B~C)");
#undef R
#define NO_LOCAL(value) \
	BAD("localports=" value, "option localports: '" value "' is not an IPv4 or IPv6 address, " \
	    "a range of them, or a network interface (write A-B~C)")
	NO_LOCAL("10.0.0.256");
	NO_LOCAL("interface-of-16b");
	NO_LOCAL("eth0:1");
	NO_LOCAL("a/b");
	NO_LOCAL("fe80::1%");
	NO_LOCAL("fe80::1%eth0%1");
	BAD("remoteports=", "option remoteports needs a value: remoteports=A-B~C (allowed: A-B~C)");
}

/* The last one counts. */
Test(options_paths, other_names)
{
	OK("remoteports=10.0.0.1-10.0.0.2,addr=10.0.0.3");
	cr_expect_str_eq(ends(&o.remoteports), "10.0.0.3");
	OK("localaddr=10.0.0.1,localports=eth0~eth1");
	cr_expect_str_eq(ends(&o.localports), "eth0 eth1");
	OK("remoteports=10.0.0.1,localaddr=10.0.0.2");
	cr_expect_str_eq(ends(&o.localports), "10.0.0.2");
}

static const char *warned(const char *opts)
{
	static char line[512];
	static FILE *err;

	line[0] = '\0';
	OK(opts);
	fflush(stderr);
	if (!err)
		err = cr_get_redirected_stderr();
	clearerr(err);                  /* it had ended, and may have more now */
	return fgets(line, sizeof(line), err) ? line : "";
}

Test(options_paths, heartbeat_and_timeo)
{
	cr_redirect_stderr();
	cr_expect_str_eq(warned("heartbeat=60"), "");
	cr_expect_str_eq(warned("timeo=10"), "");      /* the default warns of nothing */
	cr_expect_eq(o.heartbeat, 5);
	cr_expect_str_eq(warned("heartbeat=61"), "nfsrdma-fuse: warning: option heartbeat: '61' is "
			 "longer than timeo, which is 60.0 seconds: a connection that owes a reply is "
			 "given up by timeo first\n");
	cr_expect_eq(o.heartbeat, 61);
}

Test(options_paths, heartbeat_and_short_timeo)
{
	cr_redirect_stderr();
	cr_expect_str_eq(warned("heartbeat=1,timeo=9"), "nfsrdma-fuse: warning: option heartbeat: '1' is "
			 "longer than timeo, which is 0.9 seconds: a connection that owes a reply is "
			 "given up by timeo first\n");
}

/* ---- Odd values --------------------------------------------------------------- */

static uint32_t seed = 1;

static unsigned chance(unsigned n)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % n;
}

static const char *const good[] = {
	"10.0.0.1-10.0.0.4", "fe80::1%eth0-fe80::3%eth0", "[fd00::1]-[fd00::9]", "eth0~br-lan~10.0.0.1",
	"10.0.0.1-10.0.0.2~10.0.1.7~::1", "::ffff:10.0.0.1", "255.255.255.254-255.255.255.255",
	"1111:2222:3333:4444:5555:6666:7777:fffe-1111:2222:3333:4444:5555:6666:7777:ffff",
};

/* A good value with bytes of it changed, left out, doubled; or only odd bytes. Never a comma
 * or backslash, which end or change the value before it is looked at. */
static size_t odd_value(char *out, size_t room)
{
	static const char bytes[] = "0123456789abcdef.:-~[]%x/ =\t\n\x80\xff" "gz--~~::..";
	const char *from = good[chance(sizeof(good) / sizeof(good[0]))];
	size_t n = 0, changes = chance(4);

	if (chance(4) == 0) {
		for (n = 0; n < chance(120); n++)
			out[n] = bytes[chance(sizeof(bytes) - 1)];
	} else {
		n = strlen(from);
		memcpy(out, from, n);
	}
	while (changes-- && n) {
		size_t at = chance((unsigned)n);

		switch (chance(4)) {
		case 0:
			out[at] = bytes[chance(sizeof(bytes) - 1)];
			break;
		case 1:
			memmove(out + at, out + at + 1, --n - at);
			break;
		case 2:                         /* twice from there on */
			if (2 * n - at < room) {
				memcpy(out + n, out + at, n - at);
				n += n - at;
			}
			break;
		default:
			n = at + 1;
		}
	}
	out[n] = '\0';
	return n;
}

/* What was taken is a number of names, and addresses that inet_pton() takes as well. */
static void check_ends(const struct opt_ends *e, bool interfaces, const char *value)
{
	cr_assert(e->n >= 1 && e->n <= NFS_PATHS_MAX, "%s: %u", value, e->n);
	for (unsigned i = 0; i < e->n; i++) {
		char text[OPT_END_SIZE];
		struct sock_numeric again;
		unsigned char addr[16];

		cr_assert(memchr(e->text[i], '\0', OPT_END_SIZE));
		strcpy(text, e->text[i]);
		text[strcspn(text, "%")] = '\0';
		if (inet_pton(AF_INET, text, addr) == 1 || inet_pton(AF_INET6, text, addr) == 1)
			cr_assert(sock_numeric(e->text[i], strlen(e->text[i]), &again) &&
				  !strcmp(again.text, e->text[i]), "%s: %s", value, e->text[i]);
		else
			cr_assert(strlen(text) < (interfaces ? 16 : 256) && !strpbrk(e->text[i], ":%~"),
				  "%s: %s", value, e->text[i]);
	}
}

Test(options_paths, odd_values)
{
	static const char *const names[] = { "remoteports", "localports" };
	unsigned taken = 0, refused = 0;

	for (unsigned i = 0; i < 20000; i++) {
		char value[2000];
		unsigned which = chance(2);
		char *opts = NULL;

		if (!odd_value(value, sizeof(value)))
			continue;
		/* A copy without a byte to spare, so that the sanitizer sees what is behind it. */
		cr_assert_gt(asprintf(&opts, "%s=%s", names[which], value), 0);
		if (parse(opts)) {
			refused++;
			cr_assert_neq(eb.text[0], '\0', "%s: no reason", opts);
			cr_assert(strstr(eb.text, names[which]), "%s: %s", opts, eb.text);
		} else {
			taken++;
			check_ends(which ? &o.localports : &o.remoteports, which, value);
		}
		free(opts);
	}
	/* It reaches both. */
	cr_assert(taken > 1000 && refused > 1000, "%u taken, %u refused", taken, refused);
}

/* A value as long as a command line may be is judged at once. */
Test(options_paths, long_values)
{
	static const char *const pieces[] = { "-", "10.0.0.1-", "10.0.0.1~", "a", "fe80::1%a-", "[", "~" };

	for (unsigned i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		size_t len = strlen(pieces[i]), room = 120000;
		char *opts = malloc(room), *p = opts + sprintf(opts, "remoteports=");

		while (p + len < opts + room) {
			memcpy(p, pieces[i], len);
			p += len;
		}
		*p = '\0';
		cr_expect_eq(parse(opts), -EINVAL);
		cr_expect(strstr(eb.text, "option remoteports: "), "%s", eb.text);
		cr_expect_lt(strlen(eb.text), 350);
		free(opts);
	}
}
