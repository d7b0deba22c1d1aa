/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiles a format string into fields and the text between them, and names of JSON into a table. The three ways to
 * write a field, nginx's, Apache's and Envoy's, are told apart by how it begins. Reads no line: access_log.c does.
 * Called by cli/replay_run.c. */
#include "wire/access_log.h"

#include <ctype.h>
#include <stdio.h>

#include "base/fault_format.h"

/* Combined is common and two more fields, which nobody need want: $ident is "-" in nginx. */
static const char combined[] = "$remote_addr $ident $remote_user [$time_local] \"$request\" $status $body_bytes_sent "
                               "\"$http_referer\" \"$http_user_agent\"";
static const char envoy[] =
    "[%START_TIME%] \"%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%\" %RESPONSE_CODE% "
    "%RESPONSE_FLAGS% %BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "
    "\"%REQ(X-FORWARDED-FOR)%\" \"%REQ(USER-AGENT)%\" \"%REQ(X-REQUEST-ID)%\" \"%REQ(:AUTHORITY)%\" "
    "\"%UPSTREAM_HOST%\"";

/* ---- what a name means ---- */

/* Names of nginx's variables, and of members of JSON. */
static const struct meaning {
    const char *name;
    enum weir_access_kind kind;
    const char *attribute; /* IP, VALUE */
} meanings[] = {
    { "time_local", WEIR_ACCESS_TIME, NULL },
    { "time_iso8601", WEIR_ACCESS_TIME, NULL },
    { "msec", WEIR_ACCESS_TIME, NULL },
    { "time", WEIR_ACCESS_TIME, NULL },
    { "timestamp", WEIR_ACCESS_TIME, NULL },
    { "@timestamp", WEIR_ACCESS_TIME, NULL },
    { "ts", WEIR_ACCESS_TIME, NULL },
    { "start_time", WEIR_ACCESS_TIME, NULL },
    { "request", WEIR_ACCESS_REQUEST, NULL },
    { "request_uri", WEIR_ACCESS_ROUTE, NULL },
    { "document_uri", WEIR_ACCESS_ROUTE, NULL },
    { "uri", WEIR_ACCESS_ROUTE, NULL },
    { "url", WEIR_ACCESS_ROUTE, NULL },
    { "path", WEIR_ACCESS_ROUTE, NULL },
    { "target", WEIR_ACCESS_ROUTE, NULL },
    { "route", WEIR_ACCESS_ROUTE, NULL },
    { "request.uri", WEIR_ACCESS_ROUTE, NULL },
    { "request_time", WEIR_ACCESS_SECONDS, NULL },
    { "duration", WEIR_ACCESS_SECONDS, NULL },
    { "duration_ms", WEIR_ACCESS_MILLIS, NULL },
    { "duration_us", WEIR_ACCESS_MICROS, NULL },
    { "remote_addr", WEIR_ACCESS_IP, "ip" },
    { "client_ip", WEIR_ACCESS_IP, "ip" },
    { "remote_ip", WEIR_ACCESS_IP, "ip" },
    { "ip", WEIR_ACCESS_IP, "ip" },
    { "downstream_remote_address", WEIR_ACCESS_IP, "ip" },
    { "request.remote_ip", WEIR_ACCESS_IP, "ip" },
    { "request_method", WEIR_ACCESS_VALUE, "method" },
    { "request.method", WEIR_ACCESS_VALUE, "method" },
    { "remote_user", WEIR_ACCESS_VALUE, "user" },
    { "user_id", WEIR_ACCESS_VALUE, "user" },
    { "http_host", WEIR_ACCESS_VALUE, "host" },
    { "request.host", WEIR_ACCESS_VALUE, "host" },
};
#define MEANINGS (sizeof(meanings) / sizeof(meanings[0]))

static bool is(const char *name, size_t size, const char *text)
{
    return strlen(text) == size && memcmp(name, text, size) == 0;
}

static bool wanted_find(const struct weir_access_options *options, const char *name, size_t size, uint8_t *ret_wanted)
{
    for (size_t i = 0; i < options->wanted_count; i++)
        if (is(name, size, options->wanted[i])) {
            *ret_wanted = (uint8_t)i;
            return true;
        }
    return false;
}

/* Of what --map says: an attribute, or one of the kinds that are none. */
static enum weir_access_kind mapped(const struct weir_access_options *options, const char *meaning, uint8_t *ret_wanted)
{
    static const struct {
        const char *name;
        enum weir_access_kind kind;
    } kinds[] = { { "time", WEIR_ACCESS_TIME },          { "request", WEIR_ACCESS_REQUEST },
                  { "route", WEIR_ACCESS_ROUTE },        { "duration", WEIR_ACCESS_SECONDS },
                  { "duration_ms", WEIR_ACCESS_MILLIS }, { "duration_us", WEIR_ACCESS_MICROS } };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(meaning, kinds[i].name) == 0)
            return kinds[i].kind;
    if (!wanted_find(options, meaning, strlen(meaning), ret_wanted))
        return WEIR_ACCESS_SKIPPED;
    return strcmp(meaning, "ip") == 0 ? WEIR_ACCESS_IP : WEIR_ACCESS_VALUE;
}

/* http_x_api_key is the header field x-api-key. */
static bool header_find(const struct weir_access_options *options, const char *name, size_t size, uint8_t *ret_wanted)
{
    char header[WEIR_ACCESS_NAME_MAX];
    if (size <= 5 || size - 5 > sizeof(header) || memcmp(name, "http_", 5) != 0)
        return false;
    for (size_t i = 5; i < size; i++)
        header[i - 5] = name[i] == '_' ? '-' : name[i];
    return wanted_find(options, header, size - 5, ret_wanted);
}

enum weir_access_kind weir_access_meaning(const struct weir_access_options *options, const char *name, size_t size,
                                          uint8_t *ret_wanted)
{
    *ret_wanted = 0;
    for (size_t i = 0; i < options->maps_count; i++)
        if (is(name, size, options->maps[i].field))
            return mapped(options, options->maps[i].meaning, ret_wanted);
    for (size_t i = 0; i < MEANINGS; i++) {
        if (!is(name, size, meanings[i].name))
            continue;
        if (!meanings[i].attribute)
            return meanings[i].kind;
        if (wanted_find(options, meanings[i].attribute, strlen(meanings[i].attribute), ret_wanted))
            return meanings[i].kind;
    }
    bool wanted = wanted_find(options, name, size, ret_wanted) || header_find(options, name, size, ret_wanted);
    return wanted ? WEIR_ACCESS_VALUE : WEIR_ACCESS_SKIPPED;
}

/* ---- format strings ---- */

struct compiler {
    struct weir_access_format *format;
    const struct weir_access_options *options;
    const char *text; /* of the whole string */
    size_t used;      /* of format->text */
    struct weir_fault *fault;
};

static int fail(const struct compiler *compiler, const char *at, const char *what)
{
    return weir_fault_format(compiler->fault, WEIR_EINVAL, "format", "at character %zu: %s",
                             (size_t)(at - compiler->text) + 1, what);
}

static int literal_add(struct compiler *compiler, char byte)
{
    struct weir_access_format *format = compiler->format;
    if (compiler->used == sizeof(format->text))
        return weir_fault_format(compiler->fault, WEIR_ERANGE, "format", "must be at most %d bytes",
                                 WEIR_ACCESS_FORMAT_MAX);
    format->text[compiler->used++] = byte;
    if (format->field_count == 0)
        format->head_size++;
    else
        format->fields[format->field_count - 1].text_size++;
    return 0;
}

static int field_add(struct compiler *compiler, const char *at, enum weir_access_kind kind, uint8_t wanted)
{
    struct weir_access_format *format = compiler->format;
    if (format->field_count == WEIR_ACCESS_FIELDS_MAX)
        return weir_fault_format(compiler->fault, WEIR_ERANGE, "format", "must have at most %d fields",
                                 WEIR_ACCESS_FIELDS_MAX);
    if (format->field_count > 0 && format->fields[format->field_count - 1].text_size == 0)
        return fail(compiler, at, "there must be text between two fields, where the first ends");
    format->fields[format->field_count++] =
        (struct weir_access_field){ .kind = (uint8_t)kind, .wanted = wanted, .text_begin = (uint16_t)compiler->used };
    return 0;
}

static int named_add(struct compiler *compiler, const char *at, const char *name, size_t size)
{
    uint8_t wanted = 0;
    enum weir_access_kind kind = weir_access_meaning(compiler->options, name, size, &wanted);
    return field_add(compiler, at, kind, wanted);
}

/* $name, ${name}; the cursor moves behind it. */
static int nginx_add(struct compiler *compiler, const char **cursor)
{
    const char *at = *cursor, *name = at + 1;
    bool braces = *name == '{';
    name += braces;
    size_t size = 0;
    while (isalnum((unsigned char)name[size]) || name[size] == '_')
        size++;
    if (size == 0 || (braces && name[size] != '}'))
        return fail(compiler, at, "after $ comes a name, as in $remote_addr");
    *cursor = name + size + braces;
    return named_add(compiler, at, name, size);
}

static void lower(const char *from, size_t size, char ret_name[WEIR_ACCESS_NAME_MAX])
{
    for (size_t i = 0; i < size; i++)
        ret_name[i] = (char)tolower((unsigned char)from[i]);
    ret_name[size] = '\0';
}

/* %REQ(NAME?OTHER):10% */
static int envoy_add(struct compiler *compiler, const char *at, const char *command, size_t size)
{
    const char *open = memchr(command, '(', size);
    size_t word = open ? (size_t)(open - command) : size;
    char name[WEIR_ACCESS_NAME_MAX];
    if (is(command, word, "START_TIME"))
        return open ? fail(compiler, at, "START_TIME is read without a format of its own")
                    : field_add(compiler, at, WEIR_ACCESS_TIME, 0);
    if (is(command, word, "DURATION"))
        return field_add(compiler, at, WEIR_ACCESS_MILLIS, 0);
    if (word >= 10 && memcmp(command, "DOWNSTREAM", 10) == 0 && memmem(command, word, "REMOTE_ADDRESS", 14))
        return named_add(compiler, at, "downstream_remote_address", 25);
    if (!is(command, word, "REQ") || !open)
        return field_add(compiler, at, WEIR_ACCESS_SKIPPED, 0);
    size_t length = strcspn(open + 1, ")?");
    if (memmem(open, size - word, ":PATH)", 6))
        return field_add(compiler, at, WEIR_ACCESS_ROUTE, 0);
    if (length >= sizeof(name))
        return fail(compiler, at, "the name is too long");
    lower(open + 1, length, name);
    const char *known = strcmp(name, ":method") == 0           ? "request_method"
                        : strcmp(name, ":authority") == 0      ? "http_host"
                        : strcmp(name, "x-forwarded-for") == 0 ? "downstream_remote_address"
                                                               : name;
    return named_add(compiler, at, known, strlen(known));
}

/* The command between two %, at least two capital letters; 0: it is none. */
static size_t envoy_size(const char *at)
{
    size_t size = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    if (size < 2)
        return 0;
    if (at[size] == '(')
        size += strcspn(at + size, ")") + (strchr(at + size, ')') != NULL);
    if (at[size] == ':')
        size += 1 + strspn(at + size + 1, "0123456789");
    return at[size] == '%' ? size : 0;
}

static int apache_time_add(struct compiler *compiler, const char *at, const char *argument, size_t size)
{
    size_t prefix = size > 6 && memcmp(argument, "begin:", 6) == 0 ? 6
                    : size > 4 && memcmp(argument, "end:", 4) == 0 ? 4
                                                                   : 0;
    argument += prefix;
    size -= prefix;
    if (is(argument, size, "sec") || is(argument, size, "msec") || is(argument, size, "usec"))
        return field_add(compiler, at, WEIR_ACCESS_TIME, 0);
    return fail(compiler, at, "of %{...}t only sec, msec and usec are read");
}

/* %{argument}L, the letters that mean something. */
static int apache_letter_add(struct compiler *compiler, const char *at, char letter, const char *argument, size_t size)
{
    char name[WEIR_ACCESS_NAME_MAX];
    static const char letters[] = "haurUmvV";
    static const char *const names[] = { "remote_addr", "remote_addr",    "remote_user", "request",
                                         "request_uri", "request_method", "http_host",   "http_host" };
    const char *known = strchr(letters, letter);
    if (letter == 't' && argument)
        return apache_time_add(compiler, at, argument, size);
    if (letter == 't') { /* with its brackets */
        int error = literal_add(compiler, '[');
        error = error ? error : field_add(compiler, at, WEIR_ACCESS_TIME, 0);
        return error ? error : literal_add(compiler, ']');
    }
    if (letter == 'D')
        return field_add(compiler, at, WEIR_ACCESS_MICROS, 0);
    if (letter == 'T')
        return field_add(compiler, at,
                         argument && is(argument, size, "ms")   ? WEIR_ACCESS_MILLIS
                         : argument && is(argument, size, "us") ? WEIR_ACCESS_MICROS
                                                                : WEIR_ACCESS_SECONDS,
                         0);
    if (argument && strchr("ienC", letter)) {
        if (size >= sizeof(name))
            return fail(compiler, at, "the name is too long");
        lower(argument, size, name);
        return named_add(compiler, at, strcmp(name, "host") == 0 ? "http_host" : name,
                         strcmp(name, "host") == 0 ? 9 : size);
    }
    if (known)
        return named_add(compiler, at, names[known - letters], strlen(names[known - letters]));
    return field_add(compiler, at, WEIR_ACCESS_SKIPPED, 0);
}

/* %h, %>s, %{User-Agent}i; %REQ(X)% of Envoy; %%. */
static int percent_add(struct compiler *compiler, const char **cursor)
{
    const char *at = *cursor, *argument = NULL;
    size_t size = envoy_size(at + 1);
    if (size > 0) {
        *cursor = at + size + 2;
        return envoy_add(compiler, at, at + 1, size);
    }
    if (at[1] == '%') {
        *cursor = at + 2;
        return literal_add(compiler, '%');
    }
    const char *letter = at + 1 + strspn(at + 1, "<>!,0123456789");
    if (*letter == '{') {
        argument = letter + 1;
        size = strcspn(argument, "}");
        letter = argument + size + (argument[size] == '}');
    }
    if (!isalpha((unsigned char)*letter))
        return fail(compiler, at, "after % comes a letter, as in %h, or a word and %, as in %DURATION%");
    *cursor = letter + 1;
    /* The query string has a '?' of its own, which ends the path. */
    const struct weir_access_format *format = compiler->format;
    const struct weir_access_field *before = format->field_count ? &format->fields[format->field_count - 1] : NULL;
    if (*letter == 'q' && before && before->text_size == 0 && before->kind == WEIR_ACCESS_ROUTE)
        return 0;
    return apache_letter_add(compiler, at, *letter, argument, size);
}

static int fields_init(struct compiler *compiler)
{
    int error = 0;
    for (const char *at = compiler->text; *at && !error;) {
        if (*at == '$')
            error = nginx_add(compiler, &at);
        else if (*at == '%')
            error = percent_add(compiler, &at);
        else
            error = literal_add(compiler, *at++);
    }
    return error;
}

/* Which fields have to be looked at, and which stand in quotes. */
static int fields_finish(struct compiler *compiler)
{
    struct weir_access_format *format = compiler->format;
    bool timed = false;
    for (size_t i = 0; i < format->field_count; i++) {
        struct weir_access_field *field = &format->fields[i];
        const char *text = format->text + field->text_begin;
        bool unwanted = format->route == format->wanted_count && field->kind == WEIR_ACCESS_ROUTE;
        field->kind = unwanted ? WEIR_ACCESS_SKIPPED : field->kind;
        field->quoted = field->text_begin > 0 && text[-1] == '"' && field->text_size > 0 && text[0] == '"';
        if (field->kind != WEIR_ACCESS_SKIPPED)
            format->field_needed = i + 1;
        timed = timed || field->kind == WEIR_ACCESS_TIME;
        format->has_duration = format->has_duration ||
                               (field->kind >= WEIR_ACCESS_SECONDS && field->kind <= WEIR_ACCESS_MICROS);
    }
    return timed ? 0
                 : weir_fault_format(compiler->fault, WEIR_EINVAL, "format",
                                     "has no field for the time, such as $time_local, %%t or %%START_TIME%%");
}

int weir_access_format_init(struct weir_access_format *format, const char *text,
                            const struct weir_access_options *options, struct weir_fault *ret_fault)
{
    *format = (struct weir_access_format){ .path = options->path, .wanted_count = options->wanted_count };
    format->route = format->method = (uint8_t)options->wanted_count;
    (void)wanted_find(options, "route", 5, &format->route);
    (void)wanted_find(options, "method", 6, &format->method);
    if (options->wanted_count > WEIR_ACCESS_WANTED_MAX || options->maps_count > WEIR_ACCESS_MAPS_MAX)
        return weir_fault_format(ret_fault, WEIR_ERANGE, "format", "at most %d attributes and %d maps",
                                 WEIR_ACCESS_WANTED_MAX, WEIR_ACCESS_MAPS_MAX);
    if (strcmp(text, "json") == 0) {
        format->json = format->has_duration = true;
        return weir_access_members_init(format, options, ret_fault);
    }
    bool named = strcmp(text, "combined") == 0 || strcmp(text, "common") == 0 || strcmp(text, "envoy") == 0;
    if (!named && !strpbrk(text, "$%"))
        return weir_fault_format(ret_fault, WEIR_EINVAL, "format",
                                 "\"%.40s\" is none: combined, common, envoy, json, or a string with fields such as "
                                 "$remote_addr",
                                 text);
    struct compiler compiler = { format, options, text, 0, ret_fault };
    compiler.text = !named ? text : text[0] == 'e' ? envoy : combined;
    int error = fields_init(&compiler);
    return error ? error : fields_finish(&compiler);
}

const char *weir_access_format_guess(const char *line, size_t size)
{
    while (size > 0 && (*line == ' ' || *line == '\t')) {
        line++;
        size--;
    }
    return size > 0 && *line == '{' ? "json" : size > 0 && *line == '[' ? "envoy" : "combined";
}

/* ---- members of JSON ---- */

static uint8_t member_hash(const char *name, size_t size)
{
    return (uint8_t)(31 * size + 7 * (uint8_t)name[0] + (uint8_t)name[size - 1]);
}

static int member_add(struct weir_access_format *format, const struct weir_access_options *options, const char *name,
                      struct weir_fault *fault)
{
    size_t size = strlen(name);
    uint8_t wanted = 0;
    if (size == 0 || size >= WEIR_ACCESS_NAME_MAX)
        return weir_fault_format(fault, WEIR_ERANGE, "map", "a name must be 1 to %d bytes", WEIR_ACCESS_NAME_MAX - 1);
    enum weir_access_kind kind = weir_access_meaning(options, name, size, &wanted);
    if (kind == WEIR_ACCESS_SKIPPED || weir_access_member_find(format, name, size))
        return 0;
    if (format->member_count + 1 == WEIR_ACCESS_MEMBERS_MAX)
        return weir_fault_format(fault, WEIR_ERANGE, "map", "too many names");
    struct weir_access_member *member = &format->members[++format->member_count];
    uint8_t *head = &format->heads[member_hash(name, size)];
    *member = (struct weir_access_member){
        .name_size = (uint8_t)size, .kind = (uint8_t)kind, .wanted = wanted, .next = *head
    };
    memcpy(member->name, name, size);
    *head = (uint8_t)format->member_count;
    return 0;
}

int weir_access_members_init(struct weir_access_format *format, const struct weir_access_options *options,
                             struct weir_fault *ret_fault)
{
    int error = 0;
    for (size_t i = 0; i < options->maps_count && !error; i++)
        error = member_add(format, options, options->maps[i].field, ret_fault);
    for (size_t i = 0; i < MEANINGS && !error; i++)
        error = member_add(format, options, meanings[i].name, ret_fault);
    for (size_t i = 0; i < options->wanted_count && !error; i++)
        error = member_add(format, options, options->wanted[i], ret_fault);
    return error;
}

const struct weir_access_member *weir_access_member_find(const struct weir_access_format *format, const char *name,
                                                         size_t size)
{
    for (uint8_t at = size > 0 ? format->heads[member_hash(name, size)] : 0; at; at = format->members[at].next)
        if (format->members[at].name_size == size && memcmp(format->members[at].name, name, size) == 0)
            return &format->members[at];
    return NULL;
}
