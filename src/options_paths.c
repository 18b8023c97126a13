/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The options that name ends of paths: remoteports=, which is addr=, and localports=, localaddr=.
 * Only what is written is judged here. nfs/plan_paths.c looks names and interfaces up, and makes
 * paths of the ends.
 *
 *     ports  = piece *( "~" piece )
 *     piece  = address / address "-" address / host / interface
 *
 * Hosts are in remoteports=, interfaces in localports= only.
 */
#include "options_impl.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <net/if.h>
#include <stdint.h>
#include <string.h>
#include "base/sock.h"

#define HEARTBEAT_DEFAULT 5u

/* ---- Words ------------------------------------------------------------------ */

/* "10.0.0.256" is meant to be an address: neither a host nor an interface has such a name. */
static bool is_number_like(const char *text)
{
	return text[strspn(text, "0123456789.")] == '\0';
}

static bool is_interface(const char *name)
{
	return sock_is_zone(name) && !is_number_like(name);
}

static bool is_host_name(const char *text)
{
	size_t len = strlen(text);

	for (const char *c = text; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("-._", *c) && (unsigned char)*c < 0x80)
			return false;
	return len > 0 && len < OPT_END_SIZE && !is_number_like(text);
}

/* The names that a list may have besides addresses. */
struct names {
	bool (*good)(const char *text);
	const char *what;
};

/* ---- Ranges ----------------------------------------------------------------- */

/* A piece of a list: `count` addresses from `first` on, or a name. */
struct range {
	struct sock_numeric first;
	uint64_t count;
};

/* For messages: as much of a piece as is shown. */
static int shown(size_t len)
{
	return len < 150 ? (int)len : 150;
}

/* Where the four bytes are that differ between the ends of a range: of IPv6 addresses only two. */
static unsigned char *paths_varying(struct sock_numeric *n)
{
	return n->family == AF_INET ? n->addr : n->addr + 12;
}

static uint32_t value_of(struct sock_numeric *n)
{
	uint32_t v;

	memcpy(&v, paths_varying(n), sizeof(v));
	return ntohl(v);
}

static bool same_zone(const struct sock_numeric *a, const struct sock_numeric *b)
{
	const char *za = strchr(a->text, '%'), *zb = strchr(b->text, '%');

	return za && zb ? strcmp(za, zb) == 0 : za == zb;
}

/* Counts what is from out->first to `last`. */
static int count_range(const struct row *r, const char *piece, size_t len, struct range *out,
		       struct sock_numeric *last, struct errbuf *eb)
{
	struct sock_numeric *first = &out->first;
	const char *why = NULL;

	if (first->family != last->family)
		why = "one end is an IPv4 address, the other an IPv6 address";
	else if (!same_zone(first, last))
		why = "its ends are on different interfaces";
	else if (first->family == AF_INET6 && memcmp(first->addr, last->addr, 14) != 0)
		why = "its ends differ in more than the last part of the address";
	else if (value_of(first) > value_of(last))
		why = "it runs backwards (the lower address comes first)";
	out->count = (uint64_t)value_of(last) - value_of(first) + 1;
	return !why ? 0 : err_set(eb, -EINVAL, "option %s: '%.*s' is not a range: %s", r->name,
				  shown(len), piece, why);
}

/*
 * A '-' may also be in the name of an interface behind an address. So the '-' of a range is
 * one with an address on either side.
 */
static int take_piece(const struct row *r, const char *piece, size_t len, const struct names *names,
		      struct range *out, struct errbuf *eb)
{
	bool begins = false;
	struct sock_numeric last;

	out->count = 1;
	if (sock_numeric(piece, len, &out->first))
		return 0;
	for (size_t i = 1; i < len; i++) {
		if (piece[i] != '-' || !sock_numeric(piece, i, &out->first))
			continue;
		begins = true;
		if (sock_numeric(piece + i + 1, len - i - 1, &last))
			return count_range(r, piece, len, out, &last, eb);
	}
	if (begins)
		return err_set(eb, -EINVAL, "option %s: what follows the '-' in '%.*s' is not an IPv4 or "
			       "IPv6 address (write both ends in full)", r->name, shown(len), piece);
	out->first.family = AF_UNSPEC;
	if (len < sizeof(out->first.text)) {
		memcpy(out->first.text, piece, len);
		out->first.text[len] = '\0';
		if (names->good(out->first.text))
			return 0;
	}
	return err_set(eb, -EINVAL, "option %s: '%.*s' is not an IPv4 or IPv6 address, a range of them, "
		       "or %s (write A-B~C)", r->name, shown(len), piece, names->what);
}

/* Goes on to the next address. */
static void paths_step(struct sock_numeric *n)
{
	char zone[IF_NAMESIZE + 1] = "", *at = strchr(n->text, '%');
	uint32_t v = htonl(value_of(n) + 1);

	if (at)
		snprintf(zone, sizeof(zone), "%s", at);
	memcpy(paths_varying(n), &v, sizeof(v));
	inet_ntop(n->family, n->addr, n->text, sizeof(n->text));
	strcat(n->text, zone);
}

static int take_ports(const struct row *r, const char *value, const struct names *names,
		      struct opt_ends *out, struct errbuf *eb)
{
	struct opt_ends ends = { 0 };
	uint64_t total = 0;
	size_t len;

	for (const char *p = value; ; p += len + 1) {
		struct range g = { 0 };
		int err;

		len = strcspn(p, "~");
		if (!len)
			return err_set(eb, -EINVAL, "option %s: an address is missing %s a '~' in '%.*s'",
				       r->name, p == value ? "before" : "after", shown(strlen(value)), value);
		err = take_piece(r, p, len, names, &g, eb);
		if (err)
			return err;
		total += g.count;
		for (; g.count && ends.n < NFS_PATHS_MAX; g.count--) {
			memcpy(ends.text[ends.n++], g.first.text, OPT_END_SIZE);
			if (g.count > 1)
				paths_step(&g.first);
		}
		if (!p[len])
			break;
	}
	if (total > NFS_PATHS_MAX)
		return err_set(eb, -EINVAL, "option %s: '%.*s' names %llu addresses, and a mount has "
			       "at most %u paths", r->name, shown(strlen(value)), value,
			       (unsigned long long)total, NFS_PATHS_MAX);
	*out = ends;
	return 0;
}

/* ---- The options ------------------------------------------------------------ */

int opt_apply_remoteports(struct options *o, const struct row *r, const char *value,
			  struct errbuf *eb)
{
	static const struct names hosts = { is_host_name, "a host's name" };

	return take_ports(r, value, &hosts, &o->remoteports, eb);
}

int opt_apply_localports(struct options *o, const struct row *r, const char *value,
			 struct errbuf *eb)
{
	static const struct names interfaces = { is_interface, "a network interface" };

	return take_ports(r, value, &interfaces, &o->localports, eb);
}

void opt_settle_paths(struct options *o)
{
	if (o->heartbeat == UINT_UNSET)
		o->heartbeat = HEARTBEAT_DEFAULT;
	else if (o->heartbeat * 10 > o->timeo)
		log_warn("option heartbeat: '%u' is longer than timeo, which is %u.%u seconds: a "
			 "connection that owes a reply is given up by timeo first", o->heartbeat,
			 o->timeo / 10, o->timeo % 10);
}
