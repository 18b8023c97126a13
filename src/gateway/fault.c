/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * --fault: which fault happens at which call.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "gateway/gateway.h"

static const struct {
	const char *name, *value, *text;
} names[FAULT_COUNT] = {
	[FAULT_DROP_BEFORE] = { "drop-before", NULL, "break the connection before the call is passed on" },
	[FAULT_DROP_AFTER] = { "drop-after", NULL, "break the connection when the server has answered" },
	[FAULT_DELAY] = { "delay", "MS", "hold the reply back" },
	[FAULT_LATE] = { "late", "MS", "pass the call on late, or just before it comes again" },
	[FAULT_SHORT_REPLY] = { "short-reply", NULL, "write half of the reply to the Reply chunk (the call must have one)" },
	[FAULT_ERR_CHUNK] = { "err-chunk", NULL, "answer RDMA_ERROR, ERR_CHUNK" },
	[FAULT_ERR_VERS] = { "err-vers", NULL, "answer RDMA_ERROR, ERR_VERS" },
	[FAULT_CREDITS] = { "credits", "N", "grant N credits from then on" },
	[FAULT_WRONG_XID] = { "wrong-xid", NULL, "send a reply with a wrong XID before the right one" },
	[FAULT_DUP_REPLY] = { "dup-reply", NULL, "send the reply twice" },
	[FAULT_TRUNCATE] = { "truncate", "BYTES", "cut the reply's message" },
	[FAULT_INVAL_WRONG] = { "inval-wrong", NULL, "invalidate an STag that was not offered" },
	[FAULT_STALL_READ] = { "stall-read", "MS", "start RDMA Reads late" },
	[FAULT_SCRIBBLE] = { "scribble", "N", "RDMA-Write random bytes N times over what the client's handles reach, and beyond" },
};

/* Reads the digits at *s, which moves behind them. */
static bool number(const char **s, unsigned long *out)
{
	char *end;

	if (**s < '0' || **s > '9')
		return false;
	errno = 0;
	*out = strtoul(*s, &end, 10);
	*s = end;
	return errno == 0;
}

static bool parse_one(struct gw_fault_rule *r, const char **s)
{
	size_t n = strcspn(*s, "@");

	for (r->kind = 0; r->kind < FAULT_COUNT; r->kind++)
		if (strlen(names[r->kind].name) == n && !strncmp(names[r->kind].name, *s, n))
			break;
	*s += n;
	r->every = r->value = r->most = 0;
	r->seen = 0;
	if (r->kind == FAULT_COUNT || *(*s)++ != '@' || !number(s, &r->first) || !r->first)
		return false;
	if (**s == '/') {
		(*s)++;
		if (!number(s, &r->every) || !r->every)
			return false;
	}
	if ((**s == '=') != (names[r->kind].value != NULL))
		return false;
	if (**s == '=') {
		(*s)++;
		if (!number(s, &r->value) || r->value > UINT32_MAX)
			return false;
		r->most = r->value;
	}
	if (**s == '-') {
		(*s)++;
		if (!names[r->kind].value || !number(s, &r->most) || r->most > UINT32_MAX ||
		    r->most < r->value)
			return false;
	}
	return **s == ',' || **s == '\0';
}

int gw_faults_parse(struct gw_faults *f, const char *spec, struct errbuf *eb)
{
	const char *s = spec;

	for (;;) {
		if (f->n == sizeof(f->rules) / sizeof(f->rules[0]))
			return err_set(eb, -EINVAL, "--fault: more than %u faults", f->n);
		if (!parse_one(&f->rules[f->n], &s))
			return err_set(eb, -EINVAL, "--fault: '%s' is not NAME@CALL[/EVERY][=VALUE[-MOST]] with a "
				       "known NAME, and a VALUE where it takes one (see --help)", spec);
		f->n++;
		if (!*s++)
			return 0;
	}
}

/* Not every call can have these faults: they wait for the first one that can, and count
 * only those that can. */
static bool waits(enum gw_fault kind)
{
	return kind == FAULT_SHORT_REPLY || kind == FAULT_STALL_READ || kind == FAULT_SCRIBBLE;
}

static bool due(struct gw_fault_rule *r, unsigned long call)
{
	if (call < r->first)
		return false;
	if (waits(r->kind))
		return r->every ? r->seen++ % r->every == 0 : !r->seen++;
	if (!r->every)
		return call == r->first;
	return (call - r->first) % r->every == 0;
}

static unsigned long between(unsigned long low, unsigned long high)
{
	uint64_t r = 0;

	if (getrandom(&r, sizeof(r), 0) != sizeof(r))
		r = mono_ns();
	return low + (unsigned long)(r % (high - low + 1));
}

bool gw_fault(struct gw_faults *f, enum gw_fault kind, unsigned long call,
	      unsigned long *value)
{
	for (unsigned i = 0; i < f->n; i++) {
		struct gw_fault_rule *r = &f->rules[i];

		if (r->kind != kind || !due(r, call))
			continue;
		if (value)
			*value = between(r->value, r->most);
		log_info("fault %s at call %lu", names[kind].name, call);
		return true;
	}
	return false;
}

bool gw_fault_wanted(const struct gw_faults *f, enum gw_fault kind)
{
	for (unsigned i = 0; i < f->n; i++)
		if (f->rules[i].kind == kind)
			return true;
	return false;
}

void gw_faults_help(void)
{
	for (unsigned i = 0; i < FAULT_COUNT; i++) {
		char head[40];

		snprintf(head, sizeof(head), "%s@CALL%s%s", names[i].name,
			 names[i].value ? "=" : "", names[i].value ? names[i].value : "");
		printf("    %-20s %s\n", head, names[i].text);
	}
}
