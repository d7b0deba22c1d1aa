/* SPDX-License-Identifier: Apache-2.0
 *
 * What a limit lets pass at once, in words and as JSON: how many seconds of its rate that is, and what it is for
 * somebody downstream who has so many connections. */
#pragma once

#include <jansson.h>

#include "rules/rules.h"

#define WEIR_CONNECTIONS_MAX 1000000

/* "lets 20 pass at once of each key, 12s of its rate; 100 connections bear 5 such keys". `connections` 0: nothing is
 * said of them. Empty for a limit that blocks or is off, whose cost an attribute tells, and for leaky_bucket and
 * concurrency, which let nobody pass at once or bound just that. Of overrides the one that lets pass most is told. Cut
 * to fit. */
void weir_burst_format(const struct weir_rules *rules, size_t index, const struct weir_config *config,
                       uint64_t connections, char *buffer, size_t size);

/* {"limit":"api","at_once":20,"seconds_of_rate":12.0,"of_each_key":true,"override_line":9,"bearable":5}; NULL where the
 * text is empty, or without memory. */
json_t *weir_burst_json(const struct weir_rules *rules, size_t index, const struct weir_config *config,
                        uint64_t connections);
