/* SPDX-License-Identifier: Apache-2.0
 *
 * A request as the rules see it: only the attributes that some limit looks at, sorted by their number, each value in
 * its canonical form. Lives on the stack of one match. */
#pragma once

#include "rules/compiled.h"
#include "rules/literal.h"

struct weir_request_value {
    uint32_t attribute;
    bool six; /* the value is an IPv6 address: `literal` is set */
    struct weir_slice value;
    struct weir_literal literal;
};

struct weir_request {
    size_t count;
    size_t steps;                       /* look-ups so far */
    uint8_t order[WEIR_ATTRIBUTES_MAX]; /* indexes of `values`, by attribute */
    struct weir_request_value values[WEIR_ATTRIBUTES_MAX];
};

/* The values point into `attributes` or into the request itself, which must not be copied. WEIR_ELIMIT, WEIR_EDUP. */
int weir_request_init(struct weir_request *request, const struct weir_rules *rules,
                      const struct weir_attribute *attributes, size_t count, struct weir_fault *ret_fault);

/* NULL if the request lacks it. */
const struct weir_request_value *weir_request_find(const struct weir_request *request, uint32_t attribute);

/* The values of the request's key under the limit, as they are counted: IPv6 cut, of size WEIR_VALUE_ABSENT where the
 * request lacks one. They point into the request or into `ret_cut`. */
void weir_request_key(const struct weir_request *request, const struct weir_compiled_limit *limit,
                      struct weir_slice ret_values[WEIR_KEY_VALUES_MAX],
                      char ret_cut[WEIR_KEY_VALUES_MAX][WEIR_LITERAL_TEXT_MAX]);

/* Whether the entry, whose conditions hold, is for the request's key: a rollout is for a share of them. */
bool weir_request_is_for(const struct weir_request *request, const struct weir_rules *rules,
                         const struct weir_compiled_entry *entry);

/* The first attribute of the limit's key that the request lacks; 0: it has them all. */
uint32_t weir_request_lack(const struct weir_request *request, const struct weir_compiled_limit *limit);
