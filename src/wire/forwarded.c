/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/forwarded.h"

#include <openssl/evp.h>

static const struct weir_slice route_name = { "route", 5 };
static const struct weir_slice method_name = { "method", 6 };
static const struct weir_slice ip_name = { "ip", 2 };
static const struct weir_slice authorization_name = { "authorization", 13 };

/* The attributes so far, and where their decoded texts go. */
struct gathering {
    const struct weir_http_request *request;
    bool skip_authorization;
    struct weir_forwarded *out;
    size_t asked; /* attributes from the query string */
    struct weir_text text;
    const char *wrong; /* what is wrong with the request; NULL = nothing */
};

static bool same(struct weir_slice a, struct weir_slice b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static void add(struct gathering *all, struct weir_slice name, struct weir_slice value)
{
    struct weir_forwarded *out = all->out;
    if (out->count == WEIR_FORWARDED_MAX)
        all->wrong = "more than 64 attributes";
    else
        out->attributes[out->count++] = (struct weir_forwarded_attribute){ name, value };
}

/* Has one of the first `before` attributes that name? */
static bool has(const struct gathering *all, size_t before, struct weir_slice name)
{
    for (size_t i = 0; i < before; i++) {
        if (same(all->out->attributes[i].name, name))
            return true;
    }
    return false;
}

static void add_weaker(struct gathering *all, size_t before, struct weir_slice name, struct weir_slice value)
{
    if (!has(all, before, name))
        add(all, name, value);
}

/* Percent-decoded into `text`; false where a '%' is not followed by two hexadecimal digits. */
static bool decode(struct weir_text *text, struct weir_slice slice, bool plus_is_space, struct weir_slice *ret_decoded)
{
    size_t begin = text->size;
    if (!weir_text_percent(text, slice, plus_is_space))
        return false;
    *ret_decoded = (struct weir_slice){ text->data + begin, text->size - begin };
    return true;
}

/* ---- the query string ---- */

static void take_parameter(struct gathering *all, struct weir_slice part)
{
    const char *at = part.data, *equals = memchr(at, '=', part.size);
    size_t name_size = equals ? (size_t)(equals - at) : part.size;
    size_t skip = equals ? name_size + 1 : name_size;
    struct weir_slice name, value;
    if (!decode(&all->text, (struct weir_slice){ at, name_size }, true, &name) ||
        !decode(&all->text, (struct weir_slice){ at + skip, part.size - skip }, true, &value)) {
        all->wrong = "malformed percent-encoding in the query string";
    } else if (!same(name, (struct weir_slice){ "deny", 4 })) {
        add(all, name, value);
    } else if (same(value, (struct weir_slice){ "403", 3 })) {
        all->out->refused = 403;
    } else if (!same(value, (struct weir_slice){ "429", 3 })) {
        all->wrong = "deny must be 403 or 429";
    }
}

static void take_query(struct gathering *all)
{
    const char *at = all->request->query.data, *end = at + all->request->query.size;
    while (at < end && !all->wrong) {
        const char *stop = memchr(at, '&', (size_t)(end - at));
        if (!stop)
            stop = end;
        if (stop > at)
            take_parameter(all, (struct weir_slice){ at, (size_t)(stop - at) });
        at = stop + 1;
    }
    all->asked = all->out->count;
}

/* ---- header fields ---- */

#define PREFIX "x-weir-"
#define PREFIX_SIZE (sizeof(PREFIX) - 1)

/* X-Weir-User: ada. The attribute is "user", because case means nothing in a field's name. */
static void take_named(struct gathering *all, const struct weir_http_header *header)
{
    if (header->name.size <= PREFIX_SIZE ||
        !weir_http_is((struct weir_slice){ header->name.data, PREFIX_SIZE }, PREFIX) ||
        weir_http_is(header->name, "x-weir-token"))
        return;
    const uint8_t *at = (const uint8_t *)header->name.data + PREFIX_SIZE;
    size_t begin = all->text.size, size = header->name.size - PREFIX_SIZE;
    for (size_t i = 0; i < size; i++) {
        uint8_t lower = (uint8_t)(at[i] >= 'A' && at[i] <= 'Z' ? at[i] | 0x20 : at[i]);
        weir_text_bytes(&all->text, &lower, 1);
    }
    if (!all->text.overflow)
        add_weaker(all, all->asked, (struct weir_slice){ all->text.data + begin, size }, header->value);
}

/* The path alone, decoded, so that /%61pi is no way around a limit on /api. */
static struct weir_slice route_of(struct gathering *all, struct weir_slice uri)
{
    const char *question = uri.size ? memchr(uri.data, '?', uri.size) : NULL;
    struct weir_slice path = { uri.data, question ? (size_t)(question - (const char *)uri.data) : uri.size };
    struct weir_slice decoded;
    return decode(&all->text, path, false, &decoded) ? decoded : path;
}

/* The last address is the one that the nearest proxy saw; those before it are whatever the client claims. */
static struct weir_slice last_of(struct weir_slice list)
{
    const char *begin = list.data, *end = begin + list.size, *at = end;
    while (at > begin && at[-1] != ',')
        at--;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    return (struct weir_slice){ at, (size_t)(end - at) };
}

/* One-way and the same on every node: SHA-256, as hexadecimal digits. */
static struct weir_slice hash_of(struct gathering *all, struct weir_slice secret)
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    size_t begin = all->text.size;
    if (!EVP_Digest(secret.data, secret.size, digest, &size, EVP_sha256(), NULL))
        all->wrong = "Authorization cannot be hashed";
    for (unsigned i = 0; i < size; i++) {
        const char *digits = "0123456789abcdef";
        weir_text_bytes(&all->text, (char[]){ digits[digest[i] >> 4], digits[digest[i] & 15] }, 2);
    }
    return (struct weir_slice){ all->text.data + begin, all->text.size - begin };
}

static const struct weir_http_header *find_last(const struct weir_http_request *request, const char *name)
{
    for (size_t i = request->header_count; i > 0; i--) {
        if (weir_http_is(request->headers[i - 1].name, name))
            return &request->headers[i - 1];
    }
    return NULL;
}

/* nginx is told to send one of the two, Traefik and Caddy send the other by themselves: where both come, one is the
 * client's, and nobody can tell which. */
static void take_route(struct gathering *all, size_t before)
{
    const struct weir_http_header *original = find_last(all->request, "x-original-uri");
    const struct weir_http_header *forwarded = find_last(all->request, "x-forwarded-uri");
    const struct weir_http_header *uri = original ? original : forwarded;
    if (!uri || has(all, before, route_name))
        return;
    if (original && forwarded)
        all->wrong = "X-Original-URI beside X-Forwarded-Uri";
    else
        add(all, route_name, route_of(all, uri->value));
}

static void take_forwarded(struct gathering *all)
{
    const struct weir_http_request *request = all->request;
    const struct weir_http_header *method = find_last(request, "x-forwarded-method");
    const struct weir_http_header *addresses = find_last(request, "x-forwarded-for");
    const struct weir_http_header *authorization = find_last(request, "authorization");
    size_t before = all->out->count;
    take_route(all, before);
    if (method)
        add_weaker(all, before, method_name, method->value);
    if (addresses)
        add_weaker(all, before, ip_name, last_of(addresses->value));
    if (authorization && !all->skip_authorization)
        add_weaker(all, before, authorization_name, hash_of(all, authorization->value));
}

static bool refuse(struct weir_http_refusal *refusal, int status, const char *text)
{
    *refusal = (struct weir_http_refusal){ .status = status, .text = text };
    return false;
}

bool weir_forwarded_read(const struct weir_http_request *request, bool skip_authorization,
                         struct weir_forwarded *ret_forwarded, struct weir_http_refusal *ret_refusal)
{
    struct gathering all = {
        .request = request,
        .skip_authorization = skip_authorization,
        .out = ret_forwarded,
        .text = weir_text_init(ret_forwarded->text, sizeof(ret_forwarded->text)),
    };
    ret_forwarded->count = 0;
    ret_forwarded->refused = 429;
    take_query(&all);
    for (size_t i = 0; i < request->header_count && !all.wrong; i++)
        take_named(&all, &request->headers[i]);
    if (!all.wrong)
        take_forwarded(&all);
    if (all.wrong)
        return refuse(ret_refusal, 400, all.wrong);
    return !all.text.overflow || refuse(ret_refusal, 431, "the attributes are too long");
}
