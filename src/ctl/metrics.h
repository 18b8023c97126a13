/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The command metrics: a mount's counters in the text format of OpenMetrics 1.0, for Prometheus and what reads
 * the same. There are only counters, gauges and histograms, so the older format's readers take it as well.
 */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "ctl/client.h"

/* The whole text, with its end. ops and paths: the daemon's replies to these commands. */
void ctl_metrics(FILE *f, struct json_object *ops, struct json_object *paths);

/* Asks the daemon, and prints it. Returns an exit status, with eb set unless it is CTL_OK. */
int ctl_metrics_print(const struct ctl_peer *p, FILE *f, struct errbuf *eb);

/*
 * Serves it by HTTP on a Unix socket at `path`, which gets that mode, until a signal ends the process. What is
 * mounted there is looked up for each client: the mount may be another one by then. Returns an exit status with
 * eb set, if it cannot.
 */
int ctl_metrics_serve(const struct ctl_peer *p, const char *path, mode_t mode, struct errbuf *eb);

#define CTL_HTTP_MAX 4096u      /* bytes of a request, up to its empty line */
/* The status that answers this, the first `len` bytes that a client has sent: 200, 400, 404, 405, 431; or 0:
 * there has to be more. */
unsigned ctl_http_status(const char *request, size_t len);
