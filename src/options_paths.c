/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The options that name ends of paths: addr= .. addr8=, remoteports=, localports=, localaddr=.
 * Only what is written is judged here. setup_paths.c looks names and interfaces up, and makes
 * paths of the ends.
 *
 *     ports  = piece *( "~" piece )
 *     piece  = address / address "-" address / interface       (interface: localports= only)
 */
#include "options_impl.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <net/if.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HEARTBEAT_DEFAULT 5u
#define HOST_NAME_MOST    255u

/* ---- Words ------------------------------------------------------------------ */

struct numeric {
	int family;                     /* AF_INET, AF_INET6; AF_UNSPEC: an interface's name */
	unsigned char addr[sizeof(struct in6_addr)];
	char text[OPT_END_SIZE];
};

/* What the kernel takes, and no '%', which separates it from an address. */
static bool is_interface(const char *name)
{
	size_t len = strlen(name);

	for (const char *c = name; *c; c++)
		if (!isgraph((unsigned char)*c) || strchr("/:%", *c))
			return false;
	return len > 0 && len < IF_NAMESIZE;
}

/* "10.0.0.256" is meant to be an address: neither a host nor an interface has such a name. */
static bool is_number_like(const char *text)
{
	return text[strspn(text, "0123456789.")] == '\0';
}

static bool is_host_name(const char *text)
{
	size_t len = strlen(text);

	for (const char *c = text; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("-._", *c) && (unsigned char)*c < 0x80)
			return false;
	return len > 0 && len <= HOST_NAME_MOST && !is_number_like(text);
}

static bool take_numeric(const char *text, size_t len, struct numeric *out)
{
	char *zone;

	if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
		text++;
		len -= 2;
	}
	if (len >= sizeof(out->text))
		return false;
	memcpy(out->text, text, len);
	out->text[len] = '\0';
	out->family = AF_INET;
	if (inet_pton(AF_INET, out->text, out->addr) == 1)
		return true;
	zone = strchr(out->text, '%');
	if (zone && !is_interface(zone + 1))
		return false;
	if (zone)
		*zone = '\0';
	out->family = AF_INET6;
	if (inet_pton(AF_INET6, out->text, out->addr) != 1)
		return false;
	if (zone)
		*zone = '%';
	return true;
}

bool options_numeric(const char *text, char out[OPT_END_SIZE])
{
	struct numeric n;

	if (!take_numeric(text, strlen(text), &n))
		return false;
	snprintf(out, OPT_END_SIZE, "%s", n.text);
	return true;
}

/* ---- Ranges ----------------------------------------------------------------- */

/* A piece of a list: `count` addresses from `first` on, or an interface. */
struct range {
	struct numeric first;
	uint64_t count;
};

/* For messages: as much of a piece as is shown. */
static int shown(size_t len)
{
	return len < 150 ? (int)len : 150;
}

static uint32_t be32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The part that may differ between the ends of a range. */
static uint32_t varying(const struct numeric *n)
{
	return n->family == AF_INET ? be32(n->addr) : be32(n->addr + 12) & 0xffff;
}

static bool same_zone(const struct numeric *a, const struct numeric *b)
{
	const char *za = strchr(a->text, '%'), *zb = strchr(b->text, '%');

	return za && zb ? strcmp(za, zb) == 0 : za == zb;
}

/* Counts what is from out->first to `last`. */
static int count_range(const struct row *r, const char *piece, size_t len, struct range *out,
		       const struct numeric *last, struct errbuf *eb)
{
	const struct numeric *first = &out->first;

	if (first->family != last->family)
		return err_set(eb, -EINVAL, "option %s: one end of the range '%.*s' is an IPv4 address, "
			       "the other an IPv6 address", r->name, shown(len), piece);
	if (!same_zone(first, last))
		return err_set(eb, -EINVAL, "option %s: the ends of the range '%.*s' are on different "
			       "interfaces", r->name, shown(len), piece);
	if (first->family == AF_INET6 && memcmp(first->addr, last->addr, 14) != 0)
		return err_set(eb, -EINVAL, "option %s: the ends of the range '%.*s' differ in more than "
			       "the last part of the address", r->name, shown(len), piece);
	if (varying(first) > varying(last))
		return err_set(eb, -EINVAL, "option %s: the range '%.*s' runs backwards (write %s-%s)",
			       r->name, shown(len), piece, last->text, first->text);
	out->count = (uint64_t)varying(last) - varying(first) + 1;
	return 0;
}

/*
 * A '-' may also be in the name of an interface behind an address. So the '-' of a range is
 * one with an address on either side.
 */
static int take_piece(const struct row *r, const char *piece, size_t len, bool interfaces,
		      struct range *out, struct errbuf *eb)
{
	bool begins = false;
	struct numeric last;

	out->count = 1;
	if (take_numeric(piece, len, &out->first))
		return 0;
	for (size_t i = 1; i < len; i++) {
		if (piece[i] != '-' || !take_numeric(piece, i, &out->first))
			continue;
		begins = true;
		if (take_numeric(piece + i + 1, len - i - 1, &last))
			return count_range(r, piece, len, out, &last, eb);
	}
	if (begins)
		return err_set(eb, -EINVAL, "option %s: what follows the '-' in '%.*s' is not an IPv4 or "
			       "IPv6 address (write both ends in full)", r->name, shown(len), piece);
	out->first.family = AF_UNSPEC;
	if (interfaces && len < sizeof(out->first.text)) {
		memcpy(out->first.text, piece, len);
		out->first.text[len] = '\0';
		if (is_interface(out->first.text) && !is_number_like(out->first.text))
			return 0;
	}
	return err_set(eb, -EINVAL, "option %s: '%.*s' is not an IPv4 or IPv6 address%s (write A-B~C)",
		       r->name, shown(len), piece,
		       interfaces ? ", a range of them, or a network interface" : " or a range of them");
}

/* The address that is i behind the first one. */
static void address_at(const struct range *g, unsigned i, char out[OPT_END_SIZE])
{
	const char *zone = strchr(g->first.text, '%');
	unsigned char addr[sizeof(struct in6_addr)];
	uint32_t v = varying(&g->first) + i;
	char text[INET6_ADDRSTRLEN] = "";
	unsigned bytes = g->first.family == AF_INET ? 4 : 16;

	if (i == 0) {
		snprintf(out, OPT_END_SIZE, "%s", g->first.text);
		return;
	}
	memcpy(addr, g->first.addr, sizeof(addr));
	if (g->first.family == AF_INET) {
		addr[0] = (unsigned char)(v >> 24);
		addr[1] = (unsigned char)(v >> 16);
	}
	addr[bytes - 2] = (unsigned char)(v >> 8);
	addr[bytes - 1] = (unsigned char)v;
	inet_ntop(g->first.family, addr, text, sizeof(text));
	snprintf(out, OPT_END_SIZE, "%.45s%.16s", text, zone ? zone : "");
}

static int take_ports(const struct row *r, const char *value, bool interfaces,
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
		err = take_piece(r, p, len, interfaces, &g, eb);
		if (err)
			return err;
		total += g.count;
		for (unsigned i = 0; i < g.count && ends.n < OPT_PATHS_MAX; i++)
			address_at(&g, i, ends.text[ends.n++]);
		if (!p[len])
			break;
	}
	if (total > OPT_PATHS_MAX)
		return err_set(eb, -EINVAL, "option %s: '%.*s' names %llu addresses, and a mount has "
			       "at most %u paths", r->name, shown(strlen(value)), value,
			       (unsigned long long)total, OPT_PATHS_MAX);
	*out = ends;
	return 0;
}

/* ---- The options ------------------------------------------------------------ */

int opt_apply_remoteports(struct options *o, const struct row *r, const char *value,
			  struct errbuf *eb)
{
	return take_ports(r, value, false, &o->remoteports, eb);
}

int opt_apply_localports(struct options *o, const struct row *r, const char *value,
			 struct errbuf *eb)
{
	return take_ports(r, value, true, &o->localports, eb);
}

int opt_apply_addr(struct options *o, const struct row *r, const char *value,
		   struct errbuf *eb)
{
	struct numeric n;
	const char *host = value;

	if (take_numeric(value, strlen(value), &n))
		host = n.text;
	else if (!is_host_name(value))
		return err_set(eb, -EINVAL, "option %s: '%.*s' is not an IPv4 or IPv6 address, nor a "
			       "host's name", r->name, shown(strlen(value)), value);
	return opt_store_string(opt_field(o, r), host) ? opt_no_memory(eb) : 0;
}

int opt_apply_localaddr(struct options *o, const struct row *r, const char *value,
			struct errbuf *eb)
{
	struct numeric n;

	if (!take_numeric(value, strlen(value), &n))
		return err_set(eb, -EINVAL, "option %s: '%.*s' is not an IPv4 or IPv6 address of this "
			       "host", r->name, shown(strlen(value)), value);
	return opt_store_string(opt_field(o, r), n.text) ? opt_no_memory(eb) : 0;
}

int opt_settle_paths(struct options *o, struct errbuf *eb)
{
	unsigned first = 0;

	while (first < OPT_PATHS_MAX && !o->addr[first])
		first++;
	if (o->remoteports.n && first == 0)
		return err_set(eb, -EINVAL, "options 'remoteports' and 'addr' exclude each other");
	if (o->remoteports.n && first < OPT_PATHS_MAX)
		return err_set(eb, -EINVAL, "options 'remoteports' and 'addr%u' exclude each other",
			       first + 1);
	if (o->localports.n && o->localaddr)
		return err_set(eb, -EINVAL, "options 'localports' and 'localaddr' exclude each other");
	if (o->heartbeat == UINT_UNSET)
		o->heartbeat = HEARTBEAT_DEFAULT;
	else if (o->heartbeat * 10 > o->timeo)
		log_warn("option heartbeat: '%u' is longer than timeo, which is %u.%u seconds: a "
			 "connection that owes a reply is given up by timeo first", o->heartbeat,
			 o->timeo / 10, o->timeo % 10);
	return 0;
}
