/* SPDX-License-Identifier: Apache-2.0
 *
 * The three words share their options and one function that makes the HTTP call (client.c) and parses the JSON; each
 * prints its own reply. Nothing here acquires or renews a lock: that is lock.c and src/client. Called by lock.c, which
 * also has its --token-file read here. */
#include "cli/lock_ask.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/client.h"
#include "cli/option.h"
#include "cli/plain.h"
#include "cli/verbs.h"
#include "rules/config.h"
#include "rules/number.h"
#include "weir/lock.h"

#define TOKEN_FILE_MAX 1024

#define SERVER_HELP                                                                                                    \
    "  --server ADDR    where weir answers HTTP (127.0.0.1:8080): HOST:PORT, https://HOST:PORT or unix:/path\n"        \
    "  --json           the server's answer as it came\n"                                                              \
    "  --token TOKEN    who asks; better in the environment as WEIR_TOKEN, or in\n"                                    \
    "  --token-file F   a file, where ps does not show it\n"                                                           \
    "  --ca FILE        authorities to trust over https (the system's)\n"                                              \
    "  --timeout TIME   for everything together (5s)\n"

static const char show_help[] = "Usage: weir lock show NAME [OPTION ...]\n"
                                "\n"
                                "Says who holds a lock, under which token, for how long if it is not renewed, and how "
                                "many wait.\n"
                                "\n" SERVER_HELP "\n"
                                "Exit code: 0 held, 1 free, 2 no answer.\n"
                                "\n"
                                "Examples:\n"
                                "  weir lock show nightly-backup\n"
                                "  weir lock show deploy --json | jq .holder\n";

static const char release_help[] =
    "Usage: weir lock release NAME --owner ID [OPTION ...]\n"
    "\n"
    "Gives a lock back for its holder, whose work must have ended: it is not asked. Without this, a lock returns when\n"
    "its lease ends.\n"
    "\n"
    "  --owner ID       as weir lock show says\n" SERVER_HELP "\n"
    "Exit code: 0 released, 1 this owner did not hold it, 2 no answer.\n"
    "\n"
    "Examples:\n"
    "  weir lock release nightly-backup --owner web3:4711:93ab5f0c1d2e7788\n"
    "  weir lock release deploy --owner ci-17 --server https://locks.internal:8080\n";

static const char restored_help[] =
    "Usage: weir lock restored [OPTION ...]\n"
    "\n"
    "Tells the server that the store of its locks was restored from a backup: it raises its incarnation, so that "
    "tokens\n"
    "from now on come after all that were granted before the restore and then forgotten. A server that was restarted\n"
    "after the restore has done so by itself.\n"
    "\n"
    "  --at-least N     above the incarnation N, of a mark at a resource\n" SERVER_HELP "\n"
    "Exit code: 0 raised, 2 no answer or refused.\n"
    "\n"
    "Examples:\n"
    "  weir lock restored\n"
    "  weir lock restored --at-least 1767225600\n";

struct flags {
    struct weir_client_options client;
    const char *token_file;
    const char *name;
    const char *owner;
    uint64_t seen;
    bool json;
    char **argv;
    char own; /* the letter of the option that this word alone has */
};

static int complain(const char *what, const char *text)
{
    fprintf(stderr, "weir: %s %s\n", what, text);
    return WEIR_EXIT_ERROR;
}

/* A pipe is as good as a file, --token-file <(pass weir): whoever writes it may take the time to ask for a password.
 * One that nobody has open for writing is at its end, and not waited for. */
static FILE *token_file_open(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    FILE *file = fd >= 0 && fcntl(fd, F_SETFL, 0) == 0 ? fdopen(fd, "r") : NULL;
    if (!file && fd >= 0)
        (void)close(fd);
    return file;
}

char *weir_token_file_read(const char *path)
{
    char text[TOKEN_FILE_MAX];
    FILE *file = token_file_open(path);
    size_t size = file ? fread(text, 1, sizeof(text), file) : 0;
    bool read = file && !ferror(file);
    if (!read)
        fprintf(stderr, "weir: %s: %s\n", path, strerror(errno));
    if (file)
        (void)fclose(file);
    while (size > 0 && (text[size - 1] == '\n' || text[size - 1] == '\r'))
        size--;
    if (read && (size == 0 || size == sizeof(text) || memchr(text, '\0', size) || memchr(text, '\n', size))) {
        fprintf(stderr, "weir: %s: must be one line with a token\n", path);
        read = false;
    }
    char *token = read ? strndup(text, size) : NULL;
    explicit_bzero(text, sizeof(text));
    return token;
}

/* ---- arguments ---- */

/* False: it is an option of another word, which was said on standard error. */
static bool is_own(const struct flags *flags, char word)
{
    if (flags->own != word)
        (void)complain(flags->argv[optind - 1], "is no option here");
    return flags->own == word;
}

static int owner_read(void *data, const char *name, char *value)
{
    struct flags *flags = data;
    (void)name;
    flags->owner = value;
    return is_own(flags, 'o') ? 0 : WEIR_EXIT_ERROR;
}

static int at_least_read(void *data, const char *name, char *value)
{
    struct flags *flags = data;
    if (!is_own(flags, 'l'))
        return WEIR_EXIT_ERROR;
    return weir_number_parse(value, strlen(value), &flags->seen) == 0 && flags->seen <= UINT64_C(1) << 62
               ? 0
               : weir_option_wrong(name, "must be a whole number, 0 to 2^62");
}

/* `own` is the option that this word alone has; 0 = none. WEIR_OPTIONS_READ, or the exit code. */
static int flags_read(int argc, char **argv, const char *help, char own, struct flags *flags)
{
    *flags = (struct flags){
        .client = { .server = "127.0.0.1:8080", .token = getenv("WEIR_TOKEN"), .timeout_ns = 5 * WEIR_NS_PER_SECOND },
        .argv = argv,
        .own = own
    };
    const struct weir_option options[] = {
        { "server", .text = &flags->client.server },
        { "json", .given = &flags->json },
        { "token", .text = &flags->client.token },
        { "token-file", .text = &flags->token_file },
        { "ca", .text = &flags->client.ca_file },
        { "timeout", .duration_ns = &flags->client.timeout_ns },
        { "owner", .read = owner_read },
        { "at-least", .read = at_least_read },
        WEIR_OPTIONS_HELP,
    };
    const int read = weir_options_read(argc, argv, options, flags, help, "the same with --help");
    if (read != WEIR_OPTIONS_READ)
        return read;
    bool named = own != 'l';
    if (named && optind < argc)
        flags->name = argv[optind++];
    if (optind < argc)
        return complain(argv[optind], "is one argument too many");
    if (named && (!flags->name || !*flags->name || strlen(flags->name) > WEIR_LOCK_NAME_MAX))
        return complain("NAME", "must be 1 to 1024 bytes");
    if (own == 'o' && (!flags->owner || !*flags->owner || strlen(flags->owner) > WEIR_LOCK_OWNER_MAX))
        return complain("--owner", "must be 1 to 256 bytes");
    return WEIR_OPTIONS_READ;
}

/* ---- the call ---- */

/* "/v1/locks/NAME" and `suffix`, all but letters, digits and "-_.~" as %XX. free() it. */
static char *path_make(const char *name, const char *suffix)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";
    static const char digits[] = "0123456789ABCDEF";
    char *path = malloc(sizeof("/v1/locks/") + 3 * strlen(name) + strlen(suffix));
    if (!path)
        return NULL;
    char *at = stpcpy(path, "/v1/locks/");
    /* A segment of dots alone would be taken for a step up by whoever stands between. */
    bool dots = strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
    for (; *name; name++) {
        if (!dots && strchr(plain, *name)) {
            *at++ = *name;
            continue;
        }
        *at++ = '%';
        *at++ = digits[(unsigned char)*name >> 4];
        *at++ = digits[(unsigned char)*name & 15];
    }
    (void)strcpy(at, suffix);
    return path;
}

/* The answer's body as JSON, its strings as they may be shown, or NULL after a complaint. `legal` and `other` are
 * statuses that mean something here. */
static json_t *ask(struct flags *flags, const char *path, const char *body, int legal, int other, int *ret_status)
{
    struct weir_client_answer answer = { 0 };
    char problem[256];
    char *token = flags->token_file ? weir_token_file_read(flags->token_file) : NULL;
    if (flags->token_file && !token)
        return NULL;
    if (token)
        flags->client.token = token;
    int error = body ? weir_client_post(&flags->client, path, body, &answer, problem, sizeof(problem))
                     : weir_client_get(&flags->client, path, &answer, problem, sizeof(problem));
    free(token);
    if (error) {
        char text[WEIR_PLAIN_SIZE(sizeof(problem))];
        fprintf(stderr, "weir: %s: %s\n", flags->client.server, weir_plain(problem, text, sizeof(text)));
        fputs("weir: --server is the address of HTTP here (port 8080), and that of RESP for weir lock NAME\n", stderr);
        return NULL;
    }
    json_t *json = json_loadb(answer.body, answer.size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    if (!json_is_object(json) || !weir_plain_json(json) || (answer.status != legal && answer.status != other)) {
        const char *detail = json_string_value(json_object_get(json, "detail"));
        const char *title = json_string_value(json_object_get(json, "title"));
        fprintf(stderr, "weir: the server answered %d: %s\n", answer.status, detail ? detail : title ? title : "-");
        json_decref(json);
        json = NULL;
    } else if (flags->json) {
        printf("%s\n", answer.body);
    }
    *ret_status = answer.status;
    free(answer.body);
    return json;
}

static void line_print(const char *label, const json_t *object, const char *name, const char *unit)
{
    const json_t *value = json_object_get(object, name);
    if (json_is_integer(value))
        printf("  %-10s %" JSON_INTEGER_FORMAT "%s\n", label, json_integer_value(value), unit);
    else if (json_is_string(value))
        printf("  %-10s %s%s\n", label, json_string_value(value), unit);
}

static void shown_print(const struct flags *flags, const json_t *shown, bool held)
{
    char lease[WEIR_DURATION_SIZE], name[WEIR_PLAIN_SIZE(WEIR_LOCK_NAME_MAX)];
    printf("%s is %s\n", weir_plain(flags->name, name, sizeof(name)), held ? "held" : "free");
    line_print("holder", shown, "holder", "");
    line_print("holder", shown, "holder_base64", " (base64)");
    line_print("token", shown, "fence", "");
    if (json_is_integer(json_object_get(shown, "lease_ms"))) {
        json_int_t ms = json_integer_value(json_object_get(shown, "lease_ms"));
        weir_duration_format(ms > 0 ? (uint64_t)ms : 0, lease, sizeof(lease));
        printf("  %-10s %s, if it is not renewed\n", "lease", lease);
    }
    line_print("waiting", shown, "waiters", "");
}

int weir_lock_show(int argc, char **argv)
{
    struct flags flags;
    int status = 0;
    const int read = flags_read(argc, argv, show_help, 0, &flags);
    if (read != WEIR_OPTIONS_READ)
        return read;
    char *path = path_make(flags.name, "");
    json_t *shown = path ? ask(&flags, path, NULL, 200, 200, &status) : NULL;
    free(path);
    if (!shown)
        return WEIR_EXIT_ERROR;
    bool held = json_is_true(json_object_get(shown, "held"));
    if (!flags.json)
        shown_print(&flags, shown, held);
    json_decref(shown);
    return held ? WEIR_EXIT_OK : WEIR_EXIT_REFUSED;
}

int weir_lock_give_back(int argc, char **argv)
{
    struct flags flags;
    int status = 0;
    const int read = flags_read(argc, argv, release_help, 'o', &flags);
    if (read != WEIR_OPTIONS_READ)
        return read;
    json_t *question = json_pack("{s:s}", "owner", flags.owner);
    if (!question)
        return complain("--owner", "must be UTF-8 (other bytes can be sent over RESP)");
    char *body = json_dumps(question, JSON_COMPACT);
    char *path = path_make(flags.name, "/release");
    json_decref(question);
    json_t *released = body && path ? ask(&flags, path, body, 200, 404, &status) : NULL;
    free(body);
    free(path);
    if (!released)
        return WEIR_EXIT_ERROR;
    bool was_owned = json_is_true(json_object_get(released, "released"));
    bool said = json_is_boolean(json_object_get(released, "released"));
    const char *detail = json_string_value(json_object_get(released, "detail"));
    char name[WEIR_PLAIN_SIZE(WEIR_LOCK_NAME_MAX)];
    if (!said) /* a 404 of another kind: this server keeps no locks, say */
        fprintf(stderr, "weir: the server answered %d: %s\n", status, detail ? detail : "-");
    else if (!flags.json)
        printf("%s: %s\n", weir_plain(flags.name, name, sizeof(name)),
               was_owned ? "released" : "this owner does not hold it");
    json_decref(released);
    return !said ? WEIR_EXIT_ERROR : was_owned ? WEIR_EXIT_OK : WEIR_EXIT_REFUSED;
}

int weir_lock_restored(int argc, char **argv)
{
    struct flags flags;
    char body[64] = "{}";
    int status = 0;
    const int read = flags_read(argc, argv, restored_help, 'l', &flags);
    if (read != WEIR_OPTIONS_READ)
        return read;
    if (flags.seen)
        (void)snprintf(body, sizeof(body), "{\"seen\":%" PRIu64 "}", flags.seen);
    json_t *raised = ask(&flags, "/v1/locks/restored", body, 200, 200, &status);
    if (!raised)
        return WEIR_EXIT_ERROR;
    if (!flags.json)
        printf("the incarnation is %" JSON_INTEGER_FORMAT " now\n",
               json_integer_value(json_object_get(raised, "incarnation")));
    json_decref(raised);
    return WEIR_EXIT_OK;
}
