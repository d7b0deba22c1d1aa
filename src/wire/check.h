/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON of POST /v1/check: {"attributes":{"user":"ada","route":"/api/x"},"cost":1,"peek":false} in, the verdict out.
 *
 * Every member is optional. Unknown and duplicate members are refused. An attribute's value is a string; an integer or
 * a boolean stands for its text (42 is the same key as "42"). A number with a fraction or an exponent has many texts,
 * null has none: refused.
 *
 * Thread rule: plain values. */
#pragma once

#include "weir/error.h"
#include "wire/ratelimit.h"

#define WEIR_CHECK_ATTRIBUTES_MAX 64

struct weir_check_attribute {
    struct weir_slice name;
    struct weir_slice value;
    char number[24]; /* what `value` points to where it was no string */
};

/* Slices point into `json` or into the request itself: do not copy it. */
struct weir_check_request {
    size_t count;
    struct weir_check_attribute attributes[WEIR_CHECK_ATTRIBUTES_MAX];
    uint64_t cost; /* 0 to WEIR_COST_MAX; 1 where it was not said */
    bool peek;
    void *json;
};

/* Errors: WEIR_EPROTO (not JSON, or not of this shape), WEIR_ERANGE (a number, too many attributes), WEIR_ENOMEM. The
 * fault's field is the member at fault, or "body". On success the caller ends with weir_check_deinit. */
int weir_check_parse(const void *data, size_t size, struct weir_check_request *ret_request,
                     struct weir_fault *ret_fault);
void weir_check_deinit(struct weir_check_request *request);
/* The attributes of jansson's object, which outlives them, to those that are there. Errors as above. */
int weir_check_take_attributes(void *members, struct weir_check_request *request, struct weir_fault *fault);

/* The answer: {"admitted":true,"limit":"api-per-user","remaining":19,"retry_after_ms":0,"reset_after_ms":600,
 * "delay_ms":0,"limits":[...]}; refused, it is a problem detail (RFC 9457) with the same members. A limit that nodes
 * share says how, and whether the engine failed. Times are rounded up; -1 is never. Where no limit applies, limit and
 * remaining are null and limits is []. Refused for want of an attribute, `missing` names it. */
void weir_check_answer(struct weir_text *text, const struct weir_answer *answer);
size_t weir_check_answer_max(const struct weir_answer *answer);

/* How nodes share a limit, as members of an object that has one already: ,"sharing":"exact",… With what failures have
 * added to the bound. */
void weir_told_sharing(struct weir_text *text, const struct weir_told_sharing *sharing, uint64_t overshoot_added);
size_t weir_told_sharing_max(const struct weir_told_sharing *sharing);
