/* SPDX-License-Identifier: Apache-2.0
 *
 * The section `traces`: where spans of decisions are sent, and of which. Called by config.c through the table of
 * sections. Nothing is opened here (serve/setup.c). */
#include <string.h>

#include "base/units.h"
#include "net/post.h"
#include "rules/number.h"
#include "rules/section_decode.h"

#define MS WEIR_NS_PER_MS
#define OF(member) offsetof(struct weir_config_traces, member)
#define SERVICE_MAX 127
#define ONE_IN_MAX UINT64_C(1000000000)

/* Not shown where it is wrong: what somebody put there may be a secret. */
static int endpoint_decode(struct weir_decode *decode, const struct weir_yaml_node *value,
                           const struct weir_field *field, void *target)
{
    int error = weir_decode_text(decode, value, field, target);
    const char *url;
    if (error)
        return error;
    memcpy(&url, target, sizeof(url));
    const char *rest = strncmp(url, "http://", 7) == 0 ? url + 7 : strncmp(url, "https://", 8) == 0 ? url + 8 : "";
    for (const char *at = url; *at; at++)
        if (*at <= ' ' || *at > '~' || *at == '@' || *at == '#')
            rest = "";
    if (*rest && *rest != '/' && *rest != ':')
        return 0;
    return weir_config_fail(decode->fault, WEIR_EINVAL, value->mark,
                            "endpoint must be http://HOST:PORT/PATH or https://HOST:PORT/PATH, without a user, as in "
                            "http://127.0.0.1:4318/v1/traces");
}

/* "parent", or "1/1000". */
static int sample_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                         void *target)
{
    uint64_t one_in = 0;
    int error = weir_decode_kind(decode, value, WEIR_YAML_SCALAR, field->name);
    if (error)
        return error;
    const struct weir_slice text = { value->text.data, value->text.size };
    const bool parent = text.size == 6 && memcmp(text.data, "parent", 6) == 0;
    const char *data = text.data;
    if (!parent && (text.size < 3 || memcmp(data, "1/", 2) != 0 ||
                    weir_number_parse(data + 2, text.size - 2, &one_in) || one_in == 0 || one_in > ONE_IN_MAX))
        return weir_config_fail(decode->fault, WEIR_EINVAL, value->mark,
                                "sample \"%.40s\" must be parent, or 1/N with N from 1 to 1000000000, as in 1/1000",
                                data);
    memcpy(target, &one_in, sizeof(one_in));
    return 0;
}

static int service_decode(struct weir_decode *decode, const struct weir_yaml_node *value,
                          const struct weir_field *field, void *target)
{
    int error = weir_decode_text(decode, value, field, target);
    const char *text;
    if (error)
        return error;
    memcpy(&text, target, sizeof(text));
    for (const char *at = text; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            return weir_config_fail(decode->fault, WEIR_EINVAL, value->mark, "service must be one line of text");
    return 0;
}

static const struct weir_field traces_fields[] = {
    { "endpoint", endpoint_decode, OF(endpoint), true, 1, WEIR_POST_URL_MAX, NULL },
    { "sample", sample_decode, OF(sample_one_in), false, 0, 0, NULL },
    { "service", service_decode, OF(service), false, 1, SERVICE_MAX, NULL },
    { "timeout", weir_decode_duration, OF(timeout_ns), false, 100 * MS, 10000 * MS, NULL },
};

int weir_traces_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                       void *target)
{
    struct weir_config *config = target;
    int error = weir_decode_kind_shown(decode, value, WEIR_YAML_MAP, field->name,
                                       "{ endpoint: \"http://127.0.0.1:4318/v1/traces\" }");
    return error ? error
                 : weir_decode_map(decode, value, field->name, traces_fields, WEIR_COUNT_OF(traces_fields),
                                   &config->traces);
}
