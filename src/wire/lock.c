/* SPDX-License-Identifier: Apache-2.0
 *
 * The call in the path says which members its body may have, as a mask; any other is refused by name. An owner in
 * base64 is decoded and encoded again, so that it has one spelling. Called by serve/http_locks.c; the commands of RESP
 * for locks are serve/resp_locks.c. */
#include "wire/lock.h"

#include <openssl/evp.h>
#include <stdio.h>

#include "core/lease/incarnation.h"
#include "wire/http_answer.h"
#include "wire/json.h"

#define PREFIX "/v1/locks/"
#define BASE64_MAX ((WEIR_LOCK_NAME_MAX + 2) / 3 * 4) /* names are longer than owners */

/* ---- the path ---- */

static const struct {
    const char *word;
    enum weir_lock_call call;
} words[] = {
    { "acquire", WEIR_LOCK_CALL_ACQUIRE },
    { "renew", WEIR_LOCK_CALL_RENEW },
    { "release", WEIR_LOCK_CALL_RELEASE },
};

/* What stands behind the name; false if it is nothing of ours. */
static bool read_call(struct weir_slice word, enum weir_lock_call *ret_call)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (word.size == strlen(words[i].word) && memcmp(word.data, words[i].word, word.size) == 0) {
            *ret_call = words[i].call;
            return true;
        }
    }
    return false;
}

int weir_lock_path_read(struct weir_slice path, bool post, struct weir_lock_path *ret_path,
                        struct weir_fault *ret_fault)
{
    const size_t prefix = sizeof(PREFIX) - 1;
    if (path.size < prefix || memcmp(path.data, PREFIX, prefix) != 0)
        return WEIR_ENOENT;
    const char *begin = (const char *)path.data + prefix, *end = (const char *)path.data + path.size;
    const char *slash = memchr(begin, '/', (size_t)(end - begin));
    const struct weir_slice name = { begin, (size_t)((slash ? slash : end) - begin) };
    ret_path->call = WEIR_LOCK_CALL_SHOW;
    if (slash && !read_call((struct weir_slice){ slash + 1, (size_t)(end - slash) - 1 }, &ret_path->call))
        return WEIR_ENOENT;
    if (!slash && post && name.size == 8 && memcmp(name.data, "restored", 8) == 0) {
        ret_path->call = WEIR_LOCK_CALL_RESTORED;
        return 0;
    }
    struct weir_text text = weir_text_init(ret_path->name, sizeof(ret_path->name));
    if (!weir_text_percent(&text, name, false))
        return weir_json_fail(ret_fault, WEIR_EPROTO, "name",
                              "has a %% that is not followed by two hexadecimal digits");
    if (text.overflow || text.size == 0)
        return weir_json_fail(ret_fault, WEIR_ERANGE, "name", "must be 1 to %d bytes", WEIR_LOCK_NAME_MAX);
    ret_path->name_size = text.size;
    return 0;
}

/* ---- what is asked ---- */

enum { OWNER = 1, TTL = 2, WAIT = 4, SEEN = 8 };

static unsigned known_members(enum weir_lock_call call)
{
    switch (call) {
    case WEIR_LOCK_CALL_ACQUIRE:
        return OWNER | TTL | WAIT | SEEN;
    case WEIR_LOCK_CALL_RENEW:
        return OWNER | TTL;
    case WEIR_LOCK_CALL_RELEASE:
        return OWNER;
    case WEIR_LOCK_CALL_RESTORED:
        return SEEN;
    case WEIR_LOCK_CALL_SHOW:
    default:
        return 0;
    }
}

/* One text for one owner: what EVP_DecodeBlock takes beside it (blanks, bits left over) is refused. */
static bool decode_base64(const char *text, size_t size, uint8_t *ret_bytes, size_t *ret_size)
{
    unsigned char bytes[BASE64_MAX / 4 * 3 + 3], again[BASE64_MAX + 1];
    if (size == 0 || size % 4 != 0 || size > (WEIR_LOCK_OWNER_MAX + 2) / 3 * 4)
        return false;
    int decoded = EVP_DecodeBlock(bytes, (const unsigned char *)text, (int)size);
    if (decoded < 0)
        return false;
    size_t length = (size_t)decoded - (text[size - 1] == '=') - (text[size - 2] == '=');
    int encoded = EVP_EncodeBlock(again, bytes, (int)length);
    if (length > WEIR_LOCK_OWNER_MAX || encoded < 0 || (size_t)encoded != size || memcmp(again, text, size) != 0)
        return false;
    memcpy(ret_bytes, bytes, length);
    *ret_size = length;
    return true;
}

static int read_owner(const json_t *value, const char *name, struct weir_lock_question *question,
                      struct weir_fault *fault)
{
    if (question->owner.data)
        return weir_json_fail(fault, WEIR_EPROTO, name, "owner and owner_base64 exclude each other");
    if (!json_is_string(value))
        return weir_json_fail(fault, WEIR_EPROTO, name, "must be a string of 1 to %d bytes", WEIR_LOCK_OWNER_MAX);
    question->owner = (struct weir_slice){ json_string_value(value), json_string_length(value) };
    if (strcmp(name, "owner_base64") == 0) {
        if (!decode_base64(question->owner.data, question->owner.size, question->decoded, &question->owner.size))
            return weir_json_fail(fault, WEIR_EPROTO, name, "must be base64 with padding, of 1 to %d bytes",
                                  WEIR_LOCK_OWNER_MAX);
        question->owner.data = question->decoded;
    }
    if (question->owner.size == 0 || question->owner.size > WEIR_LOCK_OWNER_MAX)
        return weir_json_fail(fault, WEIR_ERANGE, name, "must be 1 to %d bytes", WEIR_LOCK_OWNER_MAX);
    return 0;
}

static int read_member(const char *name, const json_t *value, unsigned known, struct weir_lock_question *question,
                       struct weir_fault *fault)
{
    if ((known & OWNER) && (strcmp(name, "owner") == 0 || strcmp(name, "owner_base64") == 0))
        return read_owner(value, name, question, fault);
    if ((known & TTL) && strcmp(name, "ttl_ms") == 0)
        return weir_json_integer(value, name, WEIR_LOCK_TTL_MIN_MS, WEIR_LOCK_TTL_MAX_MS, &question->ttl_ms, fault);
    if ((known & WAIT) && strcmp(name, "wait_ms") == 0)
        return weir_json_integer(value, name, 0, WEIR_LOCK_WAIT_MAX_MS, &question->wait_ms, fault);
    if ((known & SEEN) && strcmp(name, "seen") == 0)
        return weir_json_integer(value, name, 0, WEIR_INCARNATION_MAX, &question->seen, fault);
    return weir_json_fail(fault, WEIR_EPROTO, name, "unknown member; known are%s%s%s%s",
                          known & OWNER ? " owner owner_base64" : "", known & TTL ? " ttl_ms" : "",
                          known & WAIT ? " wait_ms" : "", known & SEEN ? " seen" : "");
}

static int read_members(json_t *json, unsigned known, struct weir_lock_question *question, struct weir_fault *fault)
{
    if (!json_is_object(json))
        return weir_json_fail(fault, WEIR_EPROTO, "body", "must be an object");
    for (void *at = json_object_iter(json); at; at = json_object_iter_next(json, at)) {
        int error = read_member(json_object_iter_key(at), json_object_iter_value(at), known, question, fault);
        if (error)
            return error;
    }
    if ((known & OWNER) && !question->owner.data)
        return weir_json_fail(fault, WEIR_EPROTO, "owner", "is missing: a string of 1 to %d bytes",
                              WEIR_LOCK_OWNER_MAX);
    if ((known & TTL) && question->ttl_ms == 0)
        return weir_json_fail(fault, WEIR_EPROTO, "ttl_ms", "is missing: an integer, %d to %d", WEIR_LOCK_TTL_MIN_MS,
                              WEIR_LOCK_TTL_MAX_MS);
    return 0;
}

int weir_lock_question_parse(enum weir_lock_call call, const void *data, size_t size,
                             struct weir_lock_question *ret_question, struct weir_fault *ret_fault)
{
    ret_question->owner = (struct weir_slice){ NULL, 0 };
    ret_question->ttl_ms = ret_question->wait_ms = ret_question->seen = 0;
    ret_question->json = NULL;
    if (size == 0 && call == WEIR_LOCK_CALL_RESTORED)
        return 0;
    int error = 0;
    json_t *json = weir_json_parse(data, size, &error, ret_fault);
    if (!json)
        return error;
    error = read_members(json, known_members(call), ret_question, ret_fault);
    if (error)
        json_decref(json);
    else
        ret_question->json = json;
    return error;
}

void weir_lock_question_deinit(struct weir_lock_question *question)
{
    json_decref(question->json);
    question->json = NULL;
}

/* ---- what is answered ---- */

/* "NAME":"…", or "NAME_base64":"…" where the bytes are no text. */
static void bytes(struct weir_text *text, const char *member, struct weir_slice slice)
{
    bool utf8 = weir_text_is_utf8(slice.data, slice.size);
    weir_text_lit(text, "\"");
    weir_text_str(text, member);
    weir_text_str(text, utf8 ? "\":" : "_base64\":\"");
    if (utf8) {
        weir_text_json(text, slice.data, slice.size);
        return;
    }
    unsigned char encoded[BASE64_MAX + 1];
    int size = slice.size <= WEIR_LOCK_NAME_MAX ? EVP_EncodeBlock(encoded, slice.data, (int)slice.size) : 0;
    weir_text_bytes(text, encoded, size > 0 ? (size_t)size : 0);
    weir_text_lit(text, "\"");
}

static void token_members(struct weir_text *text, struct weir_token token)
{
    weir_text_member_u64(text, "\"incarnation\":", token.incarnation);
    weir_text_member_u64(text, ",\"token\":", token.number);
    weir_text_member_u64(text, ",\"fence\":\"", token.incarnation);
    weir_text_member_u64(text, ".", token.number);
    weir_text_lit(text, "\"");
}

/* Its members after the problem's own. */
static void problem(struct weir_text *text, int status, const char *detail)
{
    weir_http_problem(text, status, detail);
    if (!text->overflow)
        text->size--; /* the closing brace */
}

void weir_lock_json_granted(struct weir_text *text, struct weir_token token, uint64_t lease_ms)
{
    weir_text_lit(text, "{\"granted\":true,");
    token_members(text, token);
    weir_text_member_u64(text, ",\"lease_ms\":", lease_ms);
    weir_text_lit(text, "}");
}

void weir_lock_json_held(struct weir_text *text, struct weir_slice holder, uint64_t remaining_ms)
{
    problem(text, 409, "held by another");
    weir_text_lit(text, ",\"granted\":false,");
    if (holder.size > 0) {
        bytes(text, "holder", holder);
        weir_text_lit(text, ",");
    }
    weir_text_member_u64(text, "\"remaining_ms\":", remaining_ms);
    weir_text_lit(text, "}");
}

void weir_lock_json_lost(struct weir_text *text)
{
    problem(text, 409, "lost: this owner does not hold it (any more); nothing may be written under its token");
    weir_text_lit(text, ",\"granted\":false}");
}

void weir_lock_json_released(struct weir_text *text, bool was_owned)
{
    if (was_owned) {
        weir_text_lit(text, "{\"released\":true}");
        return;
    }
    problem(text, 404, "this owner does not hold it (any more)");
    weir_text_lit(text, ",\"released\":false}");
}

void weir_lock_json_unknown(struct weir_text *text, const char *detail)
{
    problem(text, 504, detail);
    weir_text_lit(text, ",\"unknown\":true}");
}

void weir_lock_json_raised(struct weir_text *text, uint64_t incarnation)
{
    weir_text_member_u64(text, "{\"incarnation\":", incarnation);
    weir_text_lit(text, "}");
}

void weir_lock_json_shown(struct weir_text *text, const struct weir_lock_shown *shown)
{
    weir_text_lit(text, "{");
    bytes(text, "name", shown->name);
    weir_text_str(text, shown->held ? ",\"held\":true," : ",\"held\":false");
    if (shown->held) {
        bytes(text, "holder", shown->holder);
        weir_text_lit(text, ",");
        token_members(text, shown->token);
        weir_text_member_u64(text, ",\"lease_ms\":", shown->lease_ms);
    }
    weir_text_member_u64(text, ",\"waiters\":", shown->waiters);
    weir_text_lit(text, "}");
}
