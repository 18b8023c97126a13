/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "ctl/proto.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* An object in an object is an error already. */
#define DEPTH 2

static const char *const names[CTL_COMMANDS] = {
	[CTL_PATHS] = "paths", [CTL_ADD] = "add-path", [CTL_REMOVE] = "remove-path",
	[CTL_POLICY] = "policy", [CTL_RECONNECT] = "reconnect", [CTL_STATS] = "stats",
	[CTL_RINGS] = "rings", [CTL_INFO] = "info", [CTL_ABORT] = "abort", [CTL_REMOUNT] = "remount",
	[CTL_OPS] = "ops", [CTL_CALLS] = "calls", [CTL_LOG] = "log",
};

#define BIT(command) (1u << (command))

/* The members besides "command": which commands have them, and which cannot do without. */
static const struct member {
	const char *name;
	enum { WORD, PATTERN, OPTIONS, PORT, MICROSECONDS, NUMBER, YES } kind;
	size_t off;
	unsigned of, needed;
} members[] = {
	{ "server", WORD, offsetof(struct ctl_request, server), BIT(CTL_ADD), BIT(CTL_ADD) },
	{ "local", WORD, offsetof(struct ctl_request, local), BIT(CTL_ADD), 0 },
	{ "port", PORT, offsetof(struct ctl_request, port), BIT(CTL_ADD), 0 },
	{ "path", WORD, offsetof(struct ctl_request, path), BIT(CTL_REMOVE) | BIT(CTL_RECONNECT),
	  BIT(CTL_REMOVE) | BIT(CTL_RECONNECT) },
	{ "force", YES, offsetof(struct ctl_request, force), BIT(CTL_REMOVE), 0 },
	{ "policy", WORD, offsetof(struct ctl_request, policy), BIT(CTL_POLICY), 0 },
	{ "slower_us", MICROSECONDS, offsetof(struct ctl_request, slower), BIT(CTL_CALLS) | BIT(CTL_LOG), 0 },
	{ "op", WORD, offsetof(struct ctl_request, op), BIT(CTL_LOG), 0 },
	{ "name", PATTERN, offsetof(struct ctl_request, name), BIT(CTL_LOG), 0 },
	{ "pid", NUMBER, offsetof(struct ctl_request, pid), BIT(CTL_LOG), 0 },
	{ "uid", NUMBER, offsetof(struct ctl_request, uid), BIT(CTL_LOG), 0 },
	{ "options", OPTIONS, offsetof(struct ctl_request, options), BIT(CTL_REMOUNT), BIT(CTL_REMOUNT) },
};

void ctl_add_text(struct json_object *o, const char *name, const char *text)
{
	json_object_object_add(o, name, json_object_new_string(text));
}

void ctl_add_number(struct json_object *o, const char *name, uint64_t value)
{
	json_object_object_add(o, name, json_object_new_uint64(value));
}

static bool command_named(const char *name, enum ctl_command *out)
{
	for (unsigned i = 0; i < CTL_COMMANDS; i++) {
		if (strcmp(names[i], name) == 0) {
			*out = (enum ctl_command)i;
			return true;
		}
	}
	return false;
}

/* Letters that a text for people can be made of. */
static bool is_plain(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return false;
	return true;
}

/* Any text, which stays v's. */
static int take_text(const char *name, struct json_object *v, const char **to, size_t room, struct errbuf *eb)
{
	size_t len = (size_t)json_object_get_string_len(v);

	if (!json_object_is_type(v, json_type_string) || !len)
		return err_set(eb, -EINVAL, "\"%s\" must be a string that is not empty", name);
	if (len >= room)
		return err_set(eb, -EINVAL, "\"%s\" is longer than %zu bytes", name, room - 1);
	*to = json_object_get_string(v);
	if (strlen(*to) != len)
		return err_set(eb, -EINVAL, "\"%s\" has a NUL in it", name);
	return 0;
}

static int take_word(const char *name, struct json_object *v, char to[CTL_WORD_MAX], struct errbuf *eb)
{
	const char *text = "";
	int rc = take_text(name, v, &text, CTL_WORD_MAX, eb);

	if (rc)
		return rc;
	if (!is_plain(text, strlen(text)))
		return err_set(eb, -EINVAL, "\"%s\" has characters other than printable ASCII", name);
	strcpy(to, text);
	return 0;
}

static int take_member(const struct member *m, struct json_object *v, struct ctl_request *q,
		       struct errbuf *eb)
{
	char *to = (char *)q + m->off;
	int64_t n = json_object_is_type(v, json_type_int) ? json_object_get_int64(v) : -1;

	switch (m->kind) {
	case WORD:
		return take_word(m->name, v, to, eb);
	case PATTERN:
		return take_text(m->name, v, (const char **)(void *)to, CTL_PATTERN_MAX, eb);
	case OPTIONS:
		return take_text(m->name, v, (const char **)(void *)to, CTL_OPTIONS_MAX, eb);
	case PORT:
		if (n < 1 || n > 65535)
			return err_set(eb, -EINVAL, "\"%s\" must be a number from 1 to 65535", m->name);
		*(unsigned *)(void *)to = (unsigned)n;
		return 0;
	case MICROSECONDS:
		if (n < 0 || n > 3600000000)
			return err_set(eb, -EINVAL, "\"%s\" must be a number from 0 to 3600000000", m->name);
		*(unsigned *)(void *)to = (unsigned)n;
		q->has_slower = true;
		return 0;
	case NUMBER:
		if (n < 0 || n > UINT32_MAX)
			return err_set(eb, -EINVAL, "\"%s\" must be a number from 0 to 4294967295", m->name);
		*(unsigned *)(void *)to = (unsigned)n;
		*(to == (char *)&q->pid ? &q->has_pid : &q->has_uid) = true;
		return 0;
	default:
		if (!json_object_is_type(v, json_type_boolean))
			return err_set(eb, -EINVAL, "\"%s\" must be true or false", m->name);
		*(bool *)to = json_object_get_boolean(v);
		return 0;
	}
}

static int take_command(struct json_object *o, struct ctl_request *q, struct errbuf *eb)
{
	struct json_object *v = NULL;
	char name[CTL_WORD_MAX];
	int rc;

	if (!json_object_object_get_ex(o, "command", &v))
		return err_set(eb, -EINVAL, "\"command\" is missing");
	rc = take_word("command", v, name, eb);
	if (!rc && !command_named(name, &q->command))
		return err_set(eb, -EINVAL, "there is no command \"%s\"", name);
	return rc;
}

static const struct member *member_of(const char *name, unsigned bit)
{
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		if ((members[i].of & bit) && strcmp(members[i].name, name) == 0)
			return &members[i];
	return NULL;
}

static int take_object(struct json_object *o, struct ctl_request *q, struct errbuf *eb)
{
	int rc = take_command(o, q, eb);
	unsigned bit = BIT(q->command);

	if (rc)
		return rc;
	json_object_object_foreach(o, name, value) {
		const struct member *m = member_of(name, bit);

		if (strcmp(name, "command") == 0)
			continue;
		if (!m)
			return err_set(eb, -EINVAL, "%s has no member \"%.40s\"", names[q->command],
				       is_plain(name, strlen(name)) ? name : "?");
		rc = take_member(m, value, q, eb);
		if (rc)
			return rc;
	}
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		if ((members[i].needed & bit) && !json_object_object_get_ex(o, members[i].name, NULL))
			return err_set(eb, -EINVAL, "%s needs \"%s\"", names[q->command],
				       members[i].name);
	return 0;
}

/* The length of the UTF-8 character there; 0: it is none. */
static size_t utf8_length(const char *text)
{
	const unsigned char *c = (const unsigned char *)text;

	return *c < 0x80 ? 1 : *c == 0xc2 && (c[1] & 0xc0) == 0x80 ? 2 : text_printable(text);
}

static uint32_t utf8_code(const char *text, size_t n)
{
	uint32_t code = n == 1 ? (unsigned char)*text : (unsigned char)*text & (0x7fu >> n);

	for (size_t i = 1; i < n; i++)
		code = code << 6 | ((unsigned char)text[i] & 0x3fu);
	return code;
}

/* The line in ASCII: strict json-c (0.17, 0.18) takes other bytes for control characters. A copy for free(), or NULL:
 * *at is where it is not UTF-8, or `len` if there is no memory. */
static char *in_ascii(const char *line, size_t len, size_t *at)
{
	char *out = malloc(3 * len + 1), *to = out;     /* two bytes become six, four twelve */
	uint32_t code;

	*at = len;
	for (size_t i = 0, n; out && i < len; i += n) {
		n = utf8_length(line + i);
		if (!n) {
			*at = i;
			free(out);
			return NULL;
		}
		code = utf8_code(line + i, n);
		if (code < 0x80)
			*to++ = (char)code;
		else if (code < 0x10000)
			to += sprintf(to, "\\u%04x", code);
		else
			to += sprintf(to, "\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10), 0xdc00 + (code & 0x3ff));
	}
	if (out)
		*to = '\0';
	return out;
}

int ctl_request_parse(const char *line, size_t len, struct ctl_request *out, struct errbuf *eb)
{
	struct json_tokener *t;
	struct json_object *o;
	char *ascii;
	size_t at;
	int rc;

	*out = (struct ctl_request){ 0 };
	if (memchr(line, '\0', len))
		return err_set(eb, -EINVAL, "the line has a NUL in it");
	ascii = in_ascii(line, len, &at);
	if (!ascii && at < len)
		return err_set(eb, -EINVAL, "the request has bytes that are not UTF-8, at byte %zu", at);
	t = ascii ? json_tokener_new_ex(DEPTH) : NULL;
	if (!t) {
		free(ascii);
		return err_set(eb, -EINVAL, "out of memory");
	}
	json_tokener_set_flags(t, JSON_TOKENER_STRICT);
	o = json_tokener_parse_ex(t, ascii, (int)strlen(ascii));
	if (json_tokener_get_error(t) == json_tokener_continue)
		rc = err_set(eb, -EINVAL, "the JSON object is not complete");
	else if (json_tokener_get_error(t) != json_tokener_success)
		rc = err_set(eb, -EINVAL, "the line is not a JSON object: %s at byte %zu",
			     json_tokener_error_desc(json_tokener_get_error(t)),
			     json_tokener_get_parse_end(t));
	else if (!json_object_is_type(o, json_type_object))
		rc = err_set(eb, -EINVAL, "the line is not a JSON object");
	else
		rc = take_object(o, out, eb);
	if (rc)
		json_object_put(o);
	else
		out->object = o;
	json_tokener_free(t);
	free(ascii);
	return rc;
}
