/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where to listen, and with which fabric. "auto" asks the devices first: it is verbs if a
 * device has the address, and iWARP in user space if none has it or none may be used. A
 * port in use, or an address of another machine, is an error with either, and no reason to
 * try the other one.
 */
#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include "gateway/gateway.h"

/* ---- Addresses ---- */

static bool is_number(const char *text)
{
	return *text && !text[strspn(text, "0123456789")];
}

/* A number, or the name of a service. getaddrinfo() accepts any number, and uses only
 * its last 16 bits. */
static bool port_ok(const char *port)
{
	if (is_number(port))
		return strtoul(port, NULL, 10) <= 65535;
	return isalnum((unsigned char)*port) && !strchr(port, ':');
}

int gw_address(const char *text, const char *port, const char *any,
	       struct sockaddr_storage *out, struct errbuf *eb)
{
	const char *form = any ? "[ADDRESS]:PORT" : "SERVER[:PORT]", *at = text, *end, *colon;
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *res;
	char host[256];
	size_t len;
	int rc;

	/* A bare number would be taken for an address: 99999 is 0.1.134.159. */
	if (is_number(text))
		return err_set(eb, -EINVAL, "'%s' is not %s%s", text, form, any ? "; write :PORT" : "");
	if (*text == '[') {
		end = strchr(text, ']');
		if (!end || end == text + 1 || (end[1] && end[1] != ':'))
			return err_set(eb, -EINVAL, "'%s' is not %s", text, form);
		len = (size_t)(end - ++at);
		colon = end[1] ? end + 1 : NULL;
	} else {
		colon = strchr(text, ':');
		len = colon ? (size_t)(colon - text) : strlen(text);
	}
	if (!len && !(any && colon))
		return err_set(eb, -EINVAL, "'%s' is not %s", text, form);
	if (colon && !port_ok(colon + 1))
		return err_set(eb, -EINVAL, "there is no port '%s' ('%s' is not %s%s)", colon + 1, text, form,
			       strchr(colon + 1, ':') ? "; an IPv6 address is written in brackets" : "");
	if (len >= sizeof(host))
		return err_set(eb, -EINVAL, "the host name in '%s' is too long", text);
	memcpy(host, at, len);
	host[len] = '\0';
	rc = getaddrinfo(len ? host : any, colon ? colon + 1 : port, &hints, &res);
	if (rc)
		return err_set(eb, -EINVAL, "cannot find an address for '%s': %s", text, gai_strerror(rc));
	memset(out, 0, sizeof(*out));
	memcpy(out, res->ai_addr, res->ai_addrlen);
	freeaddrinfo(res);
	return 0;
}

/* ---- The fabric ---- */

static bool no_device(int rc)
{
	return rc == -ENODEV || rc == -EACCES || rc == -EPERM;
}

int gw_listen(struct gateway *gw, const char *fabric, const struct fab_params *params,
	      struct errbuf *eb)
{
	static const struct fab_listen_events events = { .request = pair_request };
	bool any = !strcmp(fabric, "auto");
	int rc;

	gw->fab = any ? &fabric_verbs : fabric_by_name(fabric);
	if (!gw->fab)
		return err_set(eb, -EINVAL, "--fabric: '%s' is not auto, verbs or iwarp", fabric);
	rc = gw->fab->listen(params, gw->loop, &events, gw, &gw->listener, eb);
	if (rc && any && no_device(rc)) {
		log_info("--fabric auto: using iWARP in user space, because: %s", eb->text);
		gw->fab = &fabric_iwarp;
		rc = gw->fab->listen(params, gw->loop, &events, gw, &gw->listener, eb);
	}
	return rc;
}
