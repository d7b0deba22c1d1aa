/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON and the paths of /v1/locks (docs/http.md): what is asked, and what is answered.
 *
 * A name is a segment of the path, percent-encoded: any bytes, 1 to WEIR_LOCK_NAME_MAX of them ("/" is %2F). An owner
 * is the string "owner", or, where it is not UTF-8, "owner_base64" (RFC 4648 section 4, padded). What is answered is
 * the same: "holder" or "holder_base64", "name" or "name_base64". Unknown and duplicate members are refused.
 *
 * Thread rule: plain values. */
#pragma once

#include "weir/error.h"
#include "weir/lock.h"
#include "wire/text.h"

/* ---- the path ---- */

enum weir_lock_call {
    WEIR_LOCK_CALL_ACQUIRE,  /* /v1/locks/{name}/acquire */
    WEIR_LOCK_CALL_RENEW,    /* /v1/locks/{name}/renew */
    WEIR_LOCK_CALL_RELEASE,  /* /v1/locks/{name}/release */
    WEIR_LOCK_CALL_SHOW,     /* /v1/locks/{name} */
    WEIR_LOCK_CALL_RESTORED, /* /v1/locks/restored, where it is a POST: no lock's name is meant */
};

struct weir_lock_path {
    enum weir_lock_call call;
    size_t name_size;
    uint8_t name[WEIR_LOCK_NAME_MAX];
};

/* 0; WEIR_ENOENT: no path of locks; WEIR_EPROTO (a percent sign without two digits), WEIR_ERANGE (the name's length)
 * and the fault. `post` tells whether the method is POST. */
int weir_lock_path_read(struct weir_slice path, bool post, struct weir_lock_path *ret_path,
                        struct weir_fault *ret_fault);

/* ---- what is asked ---- */

/* Slices point into `json` or into the question itself: do not copy it. */
struct weir_lock_question {
    struct weir_slice owner; /* 1 to WEIR_LOCK_OWNER_MAX bytes; none for RESTORED */
    uint64_t ttl_ms;         /* ACQUIRE, RENEW: WEIR_LOCK_TTL_MIN_MS to _MAX_MS */
    uint64_t wait_ms;        /* ACQUIRE: 0 to WEIR_LOCK_WAIT_MAX_MS; 0 where it was not said */
    uint64_t seen;           /* ACQUIRE, RESTORED: an incarnation; 0 where it was not said */
    uint8_t decoded[WEIR_LOCK_OWNER_MAX];
    void *json; /* NULL: there was no body */
};

/* Reads the body of `call` (not SHOW, which has none). Errors: WEIR_EPROTO (not JSON, or not of this shape),
 * WEIR_ERANGE, WEIR_ENOMEM; the fault's field is the member at fault, or "body". End with weir_lock_question_deinit
 * on success. */
int weir_lock_question_parse(enum weir_lock_call call, const void *data, size_t size,
                             struct weir_lock_question *ret_question, struct weir_fault *ret_fault);
void weir_lock_question_deinit(struct weir_lock_question *question);

/* ---- what is answered: whole bodies, at most WEIR_LOCK_JSON_MAX bytes beside 6 times those of name and holder ---- */

#define WEIR_LOCK_JSON_MAX 640

/* Numbers are JSON integers and may lie beyond 2^53; "fence" has them as the text INCARNATION.NUMBER. */
void weir_lock_json_granted(struct weir_text *text, struct weir_token token, uint64_t lease_ms);

/* 409, a problem detail. The holder may be unknown (size 0): then it is left out. */
void weir_lock_json_held(struct weir_text *text, struct weir_slice holder, uint64_t remaining_ms);
void weir_lock_json_lost(struct weir_text *text);                        /* 409, of a renewal */
void weir_lock_json_released(struct weir_text *text, bool was_owned);    /* 200, or 404 */
void weir_lock_json_unknown(struct weir_text *text, const char *detail); /* 504, a problem detail */
void weir_lock_json_raised(struct weir_text *text, uint64_t incarnation);

struct weir_lock_shown {
    struct weir_slice name;
    bool held; /* and then: */
    struct weir_slice holder;
    struct weir_token token;
    uint64_t lease_ms;
    size_t waiters;
};
void weir_lock_json_shown(struct weir_text *text, const struct weir_lock_shown *shown);
