/* SPDX-License-Identifier: Apache-2.0
 *
 * What the last request of a loop met: a hot key is asked for again and again in the same words, and those need not be
 * matched and hashed again. Requests of up to WEIR_RECENT_BYTES that meet one limit, and of which up to
 * WEIR_RECENT_LACKS miss an attribute. One loop's thread. */
#pragma once

#include "rules/rules.h"

#define WEIR_RECENT_ATTRIBUTES 8
#define WEIR_RECENT_BYTES 256
#define WEIR_RECENT_LACKS 4

struct weir_recent {
    bool known;
    uint64_t setup_number, cost;
    size_t count;                             /* attributes */
    size_t sizes[2 * WEIR_RECENT_ATTRIBUTES]; /* name, value, name, … */
    uint8_t bytes[WEIR_RECENT_BYTES];         /* of them, one behind the other */
    size_t lacks_count;
    struct weir_match_lack lacking[WEIR_RECENT_LACKS];
    struct weir_charge charge;
    const struct weir_rule *rule;
    struct weir_remote_key remote_key;
};

/* Fills the match and returns true if the request is the one remembered. */
bool weir_recent_match(const struct weir_recent *recent, uint64_t setup_number, const struct weir_attribute *attributes,
                       size_t count, uint64_t cost, struct weir_match *match);

/* Remembers what a request met, or, where it is too long or met more than one limit, nothing. */
void weir_recent_remember(struct weir_recent *recent, uint64_t setup_number, const struct weir_attribute *attributes,
                          size_t count, uint64_t cost, const struct weir_match *match);
