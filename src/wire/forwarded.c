/* SPDX-License-Identifier: Apache-2.0
 *
 * Collects attributes in this order: the query string, X-Weir-<Name> fields, the fields of the stated proxy,
 * Authorization. The first mistake ends it. The path goes through path.c, Authorization through SHA-256. Called by
 * serve/http_check.c; rules/ decides which limits match. */
#include "wire/forwarded.h"

#include <openssl/evp.h>

#include "base/hex.h"

static const struct weir_slice route_name = { "route", 5 };
static const struct weir_slice method_name = { "method", 6 };
static const struct weir_slice ip_name = { "ip", 2 };
static const struct weir_slice cost_name = { "cost", 4 };
static const struct weir_slice authorization_name = { "authorization", 13 };

/* A field of the proxy, and what is said where it is not as it must be: texts that stay, for they are logged. */
struct stated {
    const char *name, *missing, *twice;
};
#define ORIGINAL ": the proxy must send X-Original-URI, X-Original-Method and X-Real-IP, each once and not empty"
#define BY_ITSELF ": the proxy must send X-Forwarded-Uri and X-Forwarded-Method once, X-Forwarded-For at most once"
#define STATED(name, shown, rule)                                                                                      \
    {                                                                                                                  \
        name, shown " is missing or empty" rule, shown " is there more than once" rule                                 \
    }

/* The fields in which a proxy says what its client asked for. Each comes once. nginx and HAProxy send what their
 * recipes set: all three, or the recipe was not followed, and a client could say what is missing. */
static const struct source {
    struct stated uri, method, address;
    bool address_always;
} original = { STATED("x-original-uri", "X-Original-URI", ORIGINAL),
               STATED("x-original-method", "X-Original-Method", ORIGINAL), STATED("x-real-ip", "X-Real-IP", ORIGINAL),
               true },
  by_itself = { STATED("x-forwarded-uri", "X-Forwarded-Uri", BY_ITSELF),
                STATED("x-forwarded-method", "X-Forwarded-Method", BY_ITSELF),
                STATED("x-forwarded-for", "X-Forwarded-For", BY_ITSELF), false };

/* The attributes so far, and where their decoded texts go. */
struct gathering {
    const struct weir_http_request *request;
    const struct weir_forwarded_options *options;
    const struct source *source, *other;
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

/* A name that only the proxy's own fields may say: the claim is ignored, and counted. */
static bool reserved(struct gathering *all, struct weir_slice name)
{
    bool is = same(name, route_name) || same(name, method_name) || same(name, ip_name) || same(name, cost_name) ||
              same(name, authorization_name);
    all->out->ignored += is;
    return is;
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
        if (!reserved(all, name))
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
    const struct weir_slice name = { all->text.data + begin, size };
    if (!all->text.overflow && !reserved(all, name) && !has(all, all->asked, name))
        add(all, name, header->value);
}

/* The last address is the one that the nearest proxy saw; those before it are whatever the client claims. */
static struct weir_slice last_of(struct weir_slice list)
{
    if (list.size == 0)
        return list;
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
    char digits[2 * sizeof(digest)];
    unsigned size = 0;
    size_t begin = all->text.size;
    if (!EVP_Digest(secret.data, secret.size, digest, &size, EVP_sha256(), NULL))
        all->wrong = "Authorization cannot be hashed";
    weir_hex_write(digits, digest, size);
    weir_text_bytes(&all->text, digits, 2 * (size_t)size);
    return (struct weir_slice){ all->text.data + begin, all->text.size - begin };
}

/* The one field of that name; an empty one says nothing. */
static struct weir_slice only(struct gathering *all, const char *name, const char *wrong)
{
    struct weir_slice value = { 0 };
    size_t count = 0;
    for (size_t i = 0; i < all->request->header_count; i++) {
        if (weir_http_is(all->request->headers[i].name, name)) {
            value = all->request->headers[i].value;
            count++;
        }
    }
    if (count > 1)
        all->wrong = wrong;
    return value;
}

/* The value of a field of the proxy. What is wrong with the first one is told. */
static struct weir_slice stated(struct gathering *all, const struct stated *field, bool always)
{
    if (all->wrong)
        return (struct weir_slice){ 0 };
    const struct weir_slice value = only(all, field->name, field->twice);
    if (!value.size && always && !all->wrong)
        all->wrong = field->missing;
    return value;
}

static void take_source(struct gathering *all)
{
    const struct source *source = all->source;
    const struct weir_slice uri = stated(all, &source->uri, true);
    const struct weir_slice method = stated(all, &source->method, true);
    const struct weir_slice ip = last_of(stated(all, &source->address, source->address_always));
    struct weir_slice route;
    if (!all->wrong)
        all->wrong = weir_path_read(all->options->path, uri, &all->text, &route);
    if (all->wrong)
        return;
    all->out->ignored += weir_http_find(all->request, all->other->uri.name) != NULL;
    all->out->ignored += weir_http_find(all->request, all->other->method.name) != NULL;
    add(all, route_name, route);
    add(all, method_name, method);
    if (ip.size)
        add(all, ip_name, ip);
}

static void take_authorization(struct gathering *all)
{
    const struct weir_slice secret = only(all, "authorization", "more than one Authorization");
    if (secret.size && !all->wrong && !all->options->skip_authorization)
        add(all, authorization_name, hash_of(all, secret));
}

static bool refuse(struct weir_http_refusal *refusal, int status, const char *text)
{
    *refusal = (struct weir_http_refusal){ .status = status, .text = text };
    return false;
}

const char *weir_forwarded_source_name(enum weir_forwarded_source source)
{
    static const char *const names[] = {
        [WEIR_FORWARDED_NONE] = "none",   [WEIR_FORWARDED_NGINX] = "nginx",     [WEIR_FORWARDED_TRAEFIK] = "traefik",
        [WEIR_FORWARDED_CADDY] = "caddy", [WEIR_FORWARDED_HAPROXY] = "haproxy",
    };
    return names[source];
}

bool weir_forwarded_read(const struct weir_http_request *request, const struct weir_forwarded_options *options,
                         struct weir_forwarded *ret_forwarded, struct weir_http_refusal *ret_refusal)
{
    const bool sends = options->source == WEIR_FORWARDED_TRAEFIK || options->source == WEIR_FORWARDED_CADDY;
    struct gathering all = {
        .request = request,
        .options = options,
        .source = sends ? &by_itself : &original,
        .other = sends ? &original : &by_itself,
        .out = ret_forwarded,
        .text = weir_text_init(ret_forwarded->text, sizeof(ret_forwarded->text)),
    };
    ret_forwarded->count = 0;
    ret_forwarded->ignored = 0;
    ret_forwarded->refused = 429;
    take_query(&all);
    for (size_t i = 0; i < request->header_count && !all.wrong; i++)
        take_named(&all, &request->headers[i]);
    if (!all.wrong)
        take_source(&all);
    if (!all.wrong)
        take_authorization(&all);
    if (all.wrong)
        return refuse(ret_refusal, 400, all.wrong);
    return !all.text.overflow || refuse(ret_refusal, 431, "the attributes are too long");
}
