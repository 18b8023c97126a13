/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * RDMA devices: what the kernel says of them in /sys/class/infiniband, and the MTU that is in use, which
 * only the device itself tells (libibverbs). The kernel's modules that programs reach devices by.
 */
#include "doctor/doctor_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOFT_ROCE "without an adapter, soft-RoCE makes one of a network interface: 'modprobe rdma_rxe' and " \
	"'rdma link add rxe0 type rxe netdev INTERFACE'"

/* "4: ACTIVE" -> "ACTIVE". */
static const char *devices_word(const char *line)
{
	const char *colon = strstr(line, ": ");

	return colon ? colon + 2 : line;
}

static int devices_visible(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

static int devices_list(const struct doctor *d, struct dirent ***out, const char *below)
{
	char path[DOCTOR_PATH_MAX];
	int n = scandir(doctor_path(d, path, "/sys/class/infiniband%s", below), out, devices_visible, alphasort);

	return n < 0 ? 0 : n;
}

static void devices_free(struct dirent **list, int n)
{
	while (n > 0)
		free(list[--n]);
	free(list);
}

/* Bytes; 0: the device does not say. Nobody plays devices below another root. */
static unsigned devices_mtu(const struct doctor *d, const char *name, const char *port)
{
	struct ibv_device **list = *d->cfg->root ? NULL : ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;
	struct ibv_port_attr attr;
	unsigned mtu = 0;

	for (unsigned i = 0; list && list[i] && !ctx; i++)
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			ctx = ibv_open_device(list[i]);
	if (ctx && ibv_query_port(ctx, (uint8_t)atoi(port), &attr) == 0 && attr.active_mtu >= IBV_MTU_256)
		mtu = 128u << attr.active_mtu;
	if (ctx)
		ibv_close_device(ctx);
	if (list)
		ibv_free_device_list(list);
	return mtu;
}

/* ---- each port ---- */

struct devices_port {
	const char *device, *port;
	char state[32], layer[32], rate[64];
	unsigned mtu;
};

static void devices_each(const struct doctor *d, void (*fn)(const struct devices_port *p, void *to), void *to)
{
	struct dirent **devices, **ports;
	int n = devices_list(d, &devices, ""), m;
	char below[300];

	for (int i = 0; i < n; i++) {
		snprintf(below, sizeof(below), "/%.200s/ports", devices[i]->d_name);
		m = devices_list(d, &ports, below);
		for (int j = 0; j < m; j++) {
			struct devices_port p = { .device = devices[i]->d_name, .port = ports[j]->d_name };
			const char *dir = "/sys/class/infiniband";

			doctor_line(d, p.state, sizeof(p.state), "%s%s/%s/state", dir, below, p.port);
			doctor_line(d, p.layer, sizeof(p.layer), "%s%s/%s/link_layer", dir, below, p.port);
			doctor_line(d, p.rate, sizeof(p.rate), "%s%s/%s/rate", dir, below, p.port);
			p.mtu = devices_mtu(d, p.device, p.port);
			fn(&p, to);
		}
		if (m)
			devices_free(ports, m);
	}
	if (n)
		devices_free(devices, n);
}

struct devices_seen {
	struct doctor *d;
	unsigned ports, active;
};

static void devices_text(const struct devices_port *p, char *out, size_t cap)
{
	char mtu[32] = "";

	if (p->mtu)
		snprintf(mtu, sizeof(mtu), ", MTU %u in use", p->mtu);
	snprintf(out, cap, "%.64s port %.8s is %s (%s, %s%s)", p->device, p->port, devices_word(p->state), p->layer,
		 p->rate, mtu);
}

static void devices_look(const struct devices_port *p, void *to)
{
	struct devices_seen *seen = to;
	bool active = strcmp(devices_word(p->state), "ACTIVE") == 0;
	char text[320];

	devices_text(p, text, sizeof(text));
	seen->ports++;
	seen->active += active;
	if (!active)
		doctor_note(seen->d, DOCTOR_COSTS, "RDMA device", "its cable or switch; 'ip link set up' its interface; "
			    "InfiniBand needs a subnet manager (opensm)", "%s: nothing goes there", text);
	else if (p->mtu && p->mtu < 1024)
		doctor_note(seen->d, DOCTOR_COSTS, "RDMA device", "an MTU of the network interface that is larger than "
			    "1,100, at both ends", "%s: each message is many packets", text);
	else
		doctor_note(seen->d, DOCTOR_GOOD, "RDMA device", "", "%s", text);
}

/* ---- what programs reach them by ---- */

static bool devices_has_module(const struct doctor *d, const char *name)
{
	char path[DOCTOR_PATH_MAX];
	struct stat st;

	return stat(doctor_path(d, path, "/sys/module/%s", name), &st) == 0;
}

static void devices_node(struct doctor *d, const char *name, const char *module)
{
	char path[DOCTOR_PATH_MAX], remedy[160];
	int fd = open(doctor_path(d, path, "/dev/infiniband/%s", name), O_RDWR | O_CLOEXEC), err = errno;

	if (fd >= 0) {
		close(fd);
		return;
	}
	if (err == ENOENT)
		snprintf(remedy, sizeof(remedy), "'modprobe %s'; a container has to be given the device", module);
	else
		snprintf(remedy, sizeof(remedy), "as root, 'chmod 666 /dev/infiniband/%s', as udev's rules of rdma-core do",
			 name);
	doctor_note(d, d->cfg->fabric == NFS_PLAN_VERBS ? DOCTOR_IN_THE_WAY : DOCTOR_COSTS, "RDMA for programs", remedy,
		    "/dev/infiniband/%s cannot be opened: %s%s", name, strerror(err),
		    err == ENOENT && !devices_has_module(d, module) ? " (the kernel's module is not loaded)" : "");
}

/* The first of ib_uverbs: each device has one. */
static void devices_uverbs(struct doctor *d)
{
	struct dirent **list;
	char path[DOCTOR_PATH_MAX], name[64] = "uverbs0";
	int n = scandir(doctor_path(d, path, "/sys/class/infiniband_verbs"), &list, devices_visible, alphasort);

	for (int i = n - 1; i >= 0; i--)
		if (strncmp(list[i]->d_name, "uverbs", 6) == 0)
			snprintf(name, sizeof(name), "%.60s", list[i]->d_name);
	if (n > 0)
		devices_free(list, n);
	devices_node(d, name, "ib_uverbs");
}

static void devices_none(struct doctor *d)
{
	if (d->cfg->fabric == NFS_PLAN_IWARP)
		doctor_note(d, DOCTOR_GOOD, "RDMA device", "", "fabric=iwarp needs none");
	else if (d->cfg->fabric == NFS_PLAN_VERBS)
		doctor_note(d, DOCTOR_IN_THE_WAY, "RDMA device", SOFT_ROCE "; or leave fabric=verbs out",
			    "this machine has none, and fabric=verbs needs one");
	else
		doctor_note(d, DOCTOR_COSTS, "RDMA device", SOFT_ROCE "; fabric=iwarp says that none is wanted",
			    "this machine has none: iWARP in user space goes over TCP, to nfsrdma-gateway or a Linux "
			    "server with siw, and takes this processor's time");
}

void doctor_devices(struct doctor *d)
{
	static const char *const drivers[] = { "siw", "rdma_rxe" };
	struct devices_seen seen = { .d = d };

	devices_each(d, devices_look, &seen);
	d->devices = seen.active > 0;
	/* Without a server it is what the mount will find; else the plan says so. */
	d->iwarp = d->cfg->fabric == NFS_PLAN_IWARP || (d->cfg->fabric == NFS_PLAN_AUTO && !d->devices);
	if (!seen.ports) {
		devices_none(d);
		return;
	}
	if (d->cfg->fabric == NFS_PLAN_IWARP) {
		doctor_note(d, DOCTOR_GOOD, "RDMA for programs", "", "fabric=iwarp does without devices");
		return;
	}
	devices_node(d, "rdma_cm", "rdma_ucm");
	devices_uverbs(d);
	for (unsigned i = 0; i < 2; i++)
		if (devices_has_module(d, drivers[i]))
			doctor_note(d, DOCTOR_GOOD, "RDMA driver", "", "%s is loaded: a device of this kernel's software",
				    drivers[i]);
}

static void devices_put(const struct devices_port *p, void *to)
{
	char text[320];

	devices_text(p, text, sizeof(text));
	fprintf(to, "device: %s\n", text);
}

void doctor_devices_put(const struct doctor *d, FILE *f)
{
	static const char *const modules[] = { "ib_core", "ib_uverbs", "rdma_cm", "rdma_ucm", "rdma_rxe", "siw", "mlx5_ib", "mlx4_ib", "irdma" };

	devices_each(d, devices_put, f);
	fputs("modules:", f);
	for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++)
		if (devices_has_module(d, modules[i]))
			fprintf(f, " %s", modules[i]);
	fputc('\n', f);
}
