/* SPDX-License-Identifier: Apache-2.0
 *
 * A rollout: other numbers for a share of the keys of a limit (docs/rules.md). Which keys these are is decided by a
 * hash of the limit's name and the key's values with cluster_secret: the same on every node, after every restart, and
 * by every weir, so the hash must never change. The keys of a small share are among those of each larger one.
 *
 * Thread rule: pure functions. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/limiter.h"

#define WEIR_ROLLOUT_ALL 1000          /* shares are in tenths of a percent, from 1 to this */
#define WEIR_ROLLOUT_VARIANT "rollout" /* the same whatever the share, so that keys stay where they are */

/* "10", "12.5": a number with one decimal at most, 0.1 to 100. WEIR_EINVAL, WEIR_ERANGE. */
int weir_rollout_parse(const char *text, size_t size, uint32_t *ret_share);

/* The other way. Cut to fit; WEIR_ROLLOUT_SIZE is always enough. */
#define WEIR_ROLLOUT_SIZE 16
void weir_rollout_format(uint32_t share, char *buffer, size_t size);

/* Whether the key of these values, canonical as they are counted, is among the share. A value of size WEIR_VALUE_ABSENT
 * is none, which is another key than the empty one. */
bool weir_rollout_has(const uint8_t secret[16], const char *limit, const struct weir_slice *values, size_t count,
                      uint32_t share);
