/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nfsrdma-gateway: options, the listener, the loop.
 */
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "config.h"
#include "gateway/gateway.h"

#define RDMA_PORT "20049"
#define NFS_PORT  "2049"

/* Memory: room for some connections with all their credits open. Idle time: longer than
 * a lunch. */
#define MEMORY_MIB 512u
#define IDLE_S     3600u

struct settings {
	const char *fabric, *listen, *server, *port_file, *enter;
	unsigned credits, memory_mib, idle_s;
	unsigned flags;
};

static struct gateway gateway;

static void help(void)
{
	printf("usage: nfsrdma-gateway [OPTION...] SERVER[:PORT]\n\n"
	       "Takes RPC-over-RDMA connections and passes the calls on to the NFS server SERVER\n"
	       "over TCP (port " NFS_PORT "). An IPv6 address is written in brackets.\n\n"
	       "  -l, --listen ADDRESS[:PORT], -l :PORT\n"
	       "                               where to listen (127.0.0.1:" RDMA_PORT "; no ADDRESS: on\n"
	       "                               all IPv4 addresses; port 0: a free port)\n"
	       "  -F, --fabric auto|verbs|iwarp  an RDMA device, or iWARP in user space over TCP\n"
	       "                               (auto: a device if one has the address, else iWARP)\n"
	       "  -c, --credits N              calls that a connection may have open, 1 to 256 (%u)\n"
	       "  -M, --memory MIB             for the buffers of all connections; when it is used\n"
	       "                               up, calls wait (%u)\n"
	       "  -i, --idle SECONDS           close connections that are idle for this time;\n"
	       "                               clients connect again; 0: never (%u)\n"
	       "  -a, --allow UID              iwarp: only that user of this machine may connect\n"
	       "  -e, --enter PID              reach SERVER from the network namespace of a process\n"
	       "  -C, --crc                    iwarp: ask for a CRC32c on every frame\n"
	       "  -m, --mss-fpdu               iwarp: frames fit TCP segments, as adapters want\n"
	       "  -p, --port-file FILE         write the port to FILE when ready\n"
	       "  -f, --fault SPEC             make something go wrong, see below\n"
	       "  -v, --verbose                log more; twice: log each call\n"
	       "  -h, --help\n  -V, --version\n\n"
	       "SPEC is NAME@CALL[/EVERY][=VALUE[-MOST]][,...]: at the call with that number, counted\n"
	       "from 1 over all connections, and at each EVERY-th after it (only calls that can have\n"
	       "the fault count, where few can); with MOST a random value between the two:\n",
	       GW_CREDITS, MEMORY_MIB, IDLE_S);
	gw_faults_help();
}

static int parse_number(const char *name, const char *text, unsigned min, unsigned max,
			unsigned *out, struct errbuf *eb)
{
	char *end;
	long long n = strtoll(text, &end, 10);

	if (*end || end == text || n < min || n > max)
		return err_set(eb, -EINVAL, "--%s: '%s' is not a number from %u to %u", name, text, min, max);
	*out = (unsigned)n;
	return 0;
}

/* 0: go on; 1: done; -EINVAL: eb is set. */
static int parse(struct settings *s, int argc, char **argv, struct errbuf *eb)
{
	static const struct option longs[] = {
		{ "listen", 1, NULL, 'l' }, { "fabric", 1, NULL, 'F' }, { "credits", 1, NULL, 'c' },
		{ "memory", 1, NULL, 'M' }, { "idle", 1, NULL, 'i' },
		{ "allow", 1, NULL, 'a' }, { "enter", 1, NULL, 'e' },
		{ "crc", 0, NULL, 'C' }, { "mss-fpdu", 0, NULL, 'm' },
		{ "port-file", 1, NULL, 'p' }, { "fault", 1, NULL, 'f' },
		{ "verbose", 0, NULL, 'v' }, { "help", 0, NULL, 'h' }, { "version", 0, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	int c, rc = 0;

	while (!rc && (c = getopt_long(argc, argv, "l:F:c:M:i:a:e:Cmp:f:vhV", longs, NULL)) != -1) {
		switch (c) {
		case 'l': s->listen = optarg; break;
		case 'F': s->fabric = optarg; break;
		case 'c': rc = parse_number("credits", optarg, 1, 256, &s->credits, eb); break;
		case 'M': rc = parse_number("memory", optarg, 8, 1u << 20, &s->memory_mib, eb); break;
		case 'i': rc = parse_number("idle", optarg, 0, 1u << 20, &s->idle_s, eb); break;
		case 'a':
			rc = parse_number("allow", optarg, 0, UINT32_MAX - 1, &gateway.allow.uid, eb);
			gateway.allow.on = true;
			break;
		case 'e': s->enter = optarg; break;
		case 'C': s->flags |= FAB_CRC; break;
		case 'm': s->flags |= FAB_MSS_FPDU; break;
		case 'p': s->port_file = optarg; break;
		case 'f': rc = gw_faults_parse(&gateway.faults, optarg, eb); break;
		case 'v':
			log_set_level(log_get_level() < LOG_LVL_INFO ? LOG_LVL_INFO : LOG_LVL_DEBUG);
			break;
		case 'h': help(); return 1;
		case 'V': printf("nfsrdma-gateway %s\n", PACKAGE_VERSION); return 1;
		default: return err_set(eb, -EINVAL, "see nfsrdma-gateway --help");
		}
	}
	if (rc)
		return rc;
	if (optind != argc - 1)
		return err_set(eb, -EINVAL, "one SERVER is needed; see nfsrdma-gateway --help");
	s->server = argv[optind];
	return 0;
}

static unsigned port_of(const struct sockaddr_storage *ss)
{
	return ntohs(ss->ss_family == AF_INET6 ?
		     ((const struct sockaddr_in6 *)(const void *)ss)->sin6_port :
		     ((const struct sockaddr_in *)(const void *)ss)->sin_port);
}

static int write_port(const char *path, unsigned port, struct errbuf *eb)
{
	FILE *f = fopen(path, "we");

	if (!f || fprintf(f, "%u\n", port) < 0 || fclose(f))
		return err_set(eb, -errno, "cannot write '%s': %s", path, strerror(errno));
	return 0;
}

/* Logged even without --verbose: clients need the port, and users the fabric that auto
 * has chosen. */
static void announce(const struct gateway *gw, const struct sockaddr_storage *at,
		     const char *server)
{
	enum log_level level = log_get_level();
	char text[96];

	if (level < LOG_LVL_INFO)
		log_set_level(LOG_LVL_INFO);
	log_info("listening on %s, fabric %s, for the NFS server %s",
		 fab_addr_text(at, text, sizeof(text)), gw->fab->name, server);
	log_set_level(level);
}

static int start(struct gateway *gw, const struct settings *s, struct errbuf *eb)
{
	struct fab_params params = { .flags = s->flags, .timeout_ms = 30000 };
	struct sockaddr_storage at;
	int rc;

	rc = gw_address(s->server, NFS_PORT, NULL, &gw->server, eb);
	if (!rc)
		rc = gw_address(s->listen, RDMA_PORT, "0.0.0.0", &params.local, eb);
	if (rc)
		return rc;
	gw->credits = s->credits;
	gw->idle_ms = s->idle_s * 1000;
	memory_init(&gw->memory, (size_t)s->memory_mib << 20);
	params.max_send = pair_max_send(gw);
	params.max_recv = pair_max_recv(gw);
	rc = gw_listen(gw, s->fabric, &params, eb);
	if (rc)
		return rc;
	if (gw->allow.on) {
		if (!gw->fab->addrs)
			return err_set(eb, -EINVAL, "--allow: an RDMA device's connections have no user; use --fabric iwarp");
		rc = allow_open(&gw->allow, eb);
		if (rc)
			return rc;
	} else if (gw->fab->addrs) {
		/* Without it the users of this machine are one peer. */
		allow_open(&gw->allow, NULL);
	}
	gw->fab->listen_addr(gw->listener, &at);
	if (s->enter && (rc = enter_server(s->enter, eb)))
		return rc;
	announce(gw, &at, s->server);
	return s->port_file ? write_port(s->port_file, port_of(&at), eb) : 0;
}

static void on_signal(int sig)
{
	(void)sig;
	loop_stop(gateway.loop);
}

int main(int argc, char **argv)
{
	struct settings s = { .fabric = "auto", .listen = "127.0.0.1", .credits = GW_CREDITS,
			      .memory_mib = MEMORY_MIB, .idle_s = IDLE_S };
	struct sigaction stop = { .sa_handler = on_signal };
	struct errbuf eb = { "" };
	int rc;

	log_set_name("nfsrdma-gateway");
	log_set_level(LOG_LVL_WARN);
	list_init(&gateway.pairs);
	list_init(&gateway.peers);
	drc_init(&gateway.drc);
	rc = parse(&s, argc, argv, &eb);
	if (rc > 0)
		return 0;
	if (!rc) {
		gateway.loop = loop_new(NULL);
		rc = gateway.loop ? start(&gateway, &s, &eb) : err_set(&eb, -errno, "%s", strerror(errno));
	}
	if (rc) {
		log_err("%s", eb.text);
		return 1;
	}
	sigaction(SIGINT, &stop, NULL);
	sigaction(SIGTERM, &stop, NULL);
	signal(SIGPIPE, SIG_IGN);
	rc = loop_run(gateway.loop);
	gateway.fab->unlisten(gateway.listener);
	while (!list_empty(&gateway.pairs))
		pair_free(container_of(gateway.pairs.next, struct gw_pair, node));
	drc_clear(&gateway.drc);
	allow_close(&gateway.allow);
	loop_free(gateway.loop);
	return rc ? 1 : 0;
}
