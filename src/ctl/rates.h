/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the command top shows: differences of statistics. It is arithmetic, and asks nobody. */
#pragma once

#include <json-c/json.h>

/*
 * What has happened between two replies to "stats", per second:
 *
 *     {"seconds":S, "calls":N, "read_bytes":N, "written_bytes":N, "kinds":{"READ":N, ...},
 *      "policy":..., "paths":[{"id":..., "server":..., "state":..., "connections":...,
 *      "wanted":..., "in_flight":..., "credits":..., "latency_ns":..., "calls":N,
 *      "rx_bytes":N, "tx_bytes":N}, ...]}
 *
 * N are doubles. A path that is new counts from zero. The caller's; NULL: no memory.
 */
struct json_object *ctl_rates(struct json_object *before, struct json_object *after, double seconds);
