/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libnfsidmap, the library behind the kernel client's own mapping (nfsidmap(8)).
 * /etc/idmapd.conf says the domain and where to look; the default is NSS. It keeps its
 * state in globals and may block in DNS for the domain, so it is called on mappers' threads only,
 * one after the other.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
/* This header does not include what it needs. */
#include <nfsidmap.h>
#include "base/log.h"
#include "nfs/idmap.h"

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;  /* for all of the library */
static bool ready;
static char domain[NFS4_MAX_DOMAIN_LEN];

static void __attribute__((format(printf, 1, 2))) on_log(const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	text[strcspn(text, "\n")] = '\0';
	log_debug("libnfsidmap: %s", text);
}

static int idmap_lib_prepare(void)
{
	int rc;

	if (ready)
		return 0;
	nfs4_set_debug(0, on_log);
	rc = nfs4_init_name_mapping(NULL);
	if (!rc)
		rc = nfs4_get_default_domain(NULL, domain, sizeof(domain));
	if (rc) {
		log_debug("libnfsidmap: no mapping: %s", strerror(rc < 0 ? -rc : rc));
		return rc < 0 ? rc : -rc;
	}
	ready = true;
	return 0;
}

static int to_id(bool group, const char *name, uint32_t *id)
{
	char copy[NFS_OWNER_MAX];
	uid_t uid = 0;
	gid_t gid = 0;
	int rc;

	snprintf(copy, sizeof(copy), "%s", name);
	pthread_mutex_lock(&mu);
	rc = idmap_lib_prepare();
	/* Not owner_to_uid(), which returns nobody for an unknown name. */
	if (!rc)
		rc = group ? nfs4_name_to_gid(copy, &gid) : nfs4_name_to_uid(copy, &uid);
	pthread_mutex_unlock(&mu);
	*id = group ? gid : uid;
	return rc;
}

static int to_name(bool group, uint32_t id, char *name, size_t len)
{
	int rc;

	pthread_mutex_lock(&mu);
	rc = idmap_lib_prepare();
	if (!rc)
		rc = group ? nfs4_gid_to_name(id, domain, name, len) :
			     nfs4_uid_to_name(id, domain, name, len);
	pthread_mutex_unlock(&mu);
	return rc;
}

const struct nfs_idmapper nfs_idmapper_lib = { .to_id = to_id, .to_name = to_name };
