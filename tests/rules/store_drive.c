/* SPDX-License-Identifier: Apache-2.0
 *
 * store_drive SPEC TABLE create|use|later POLL_MS: a store of rule sets on a line each, for tests that break its
 * server. An answer is one line of JSON. TABLE "-": the usual one; POLL_MS 0: as usual; "later": as a weir that has a
 * schema more, and makes what is not there.
 *
 *     timeout MS                        of what follows; 60000
 *     head
 *     read NUMBER
 *     list FROM COUNT
 *     append EXPECTED CHANGE KIND OF TEXT    CHANGE: 32 digits, or "-" for a new one; TEXT of a rollback: "-"
 *     large EXPECTED BYTES              appends a text of so many
 *     tell NODE VERSION SINCE
 *     told all|newest
 *     wait                              for another head than the last that was answered
 *     migrate TO
 *     except KIND USER UNTIL WALL CHANGE     bans (ban), ends that (unban) or resets (reset) the key user=USER of
 *                                            the limit api, or gives it a level (any other KIND is its name)
 *     exceptions FROM COUNT AT          those from number FROM on; AT not 0: that hold then
 *     heard NUMBER                      waits until there is one of this number, or a later one
 *     bounds EXCEPTIONS CHANGES         how many the store takes
 *     hammer-except COUNT               bans so many keys; a line for each: its number and its id
 *     hammer COUNT                      appends so many, each made from what it then finds, and asks again where nobody
 *                                       answered; a line for each: its number and its id
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/hex.h"
#include "rules/store_inside.h"

#define WORDS_MAX 8

struct drive {
    struct weir_rule_store *store;
    uint64_t timeout_ms;
    struct weir_rule_head head; /* the last that was answered */
    struct weir_fault fault;
};

static uint64_t deadline(const struct drive *drive)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec + drive->timeout_ms * 1000000;
}

static void print_string(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        putchar((unsigned char)*text < ' ' ? '?' : *text);
    }
    putchar('"');
}

static void print_status(const struct drive *drive, int error)
{
    printf("{\"status\":\"%s\",\"field\":", error ? weir_error_name(error) + strlen("WEIR_") : "OK");
    print_string(error ? drive->fault.field : "");
    printf(",\"fault\":");
    print_string(error ? drive->fault.text : "");
}

static void print_hex(const char *name, const uint8_t *bytes, size_t size)
{
    char text[65];
    *weir_hex_write(text, bytes, size) = '\0';
    printf(",\"%s\":\"%s\"", name, text);
}

static void print_head(const struct weir_rule_head *head)
{
    printf(",\"number\":%" PRIu64, head->number);
    print_hex("checksum", head->checksum, sizeof head->checksum);
    print_hex("store", head->store, sizeof head->store);
}

static void print_version(const struct weir_rule_version *version)
{
    printf("\"number\":%" PRIu64 ",\"kind\":\"%s\",\"of\":%" PRIu64 ",\"wall_ns\":%" PRIu64 ",\"size\":%" PRIu64
           ",\"author\":",
           version->number, weir_rule_kind_name(version->kind), version->of, version->wall_ns, version->text_size);
    print_string(version->author);
    printf(",\"comment\":");
    print_string(version->comment);
    print_hex("change", version->change, sizeof version->change);
    print_hex("checksum", version->checksum, sizeof version->checksum);
}

/* ---- the verbs ---- */

static void do_head(struct drive *drive, char **words)
{
    (void)words;
    int error = weir_rule_store_head(drive->store, deadline(drive), &drive->head, &drive->fault);
    print_status(drive, error);
    print_head(&drive->head);
    printf("}\n");
}

static void do_wait(struct drive *drive, char **words)
{
    (void)words;
    const struct weir_rule_head seen = drive->head;
    const uint64_t until_ns = deadline(drive);
    int error = weir_rule_store_head(drive->store, until_ns, &drive->head, &drive->fault);
    while (weir_rule_now_ns() < until_ns && (error || weir_rule_head_same(&drive->head, &seen)))
        if (weir_rule_store_wait(drive->store, until_ns) && weir_rule_now_ns() < until_ns)
            error = weir_rule_store_head(drive->store, until_ns, &drive->head, &drive->fault);
    print_status(drive, error);
    print_head(&drive->head);
    printf("}\n");
}

static void do_read(struct drive *drive, char **words)
{
    struct weir_rule_version version;
    char *text = NULL;
    int error = weir_rule_store_read(drive->store, strtoull(words[1], NULL, 10), deadline(drive), &version, &text,
                                     &drive->fault);
    print_status(drive, error);
    if (!error) {
        printf(",");
        print_version(&version);
        printf(",\"text\":");
        print_string(version.text_size <= 1000 ? text : "");
    }
    printf("}\n");
    free(text);
}

static bool print_listed(void *context, const struct weir_rule_version *version)
{
    bool *first = context;
    printf("%s{", *first ? "" : ",");
    *first = false;
    print_version(version);
    printf("}");
    return true;
}

static void do_list(struct drive *drive, char **words)
{
    bool first = true;
    printf("{\"versions\":[");
    int error = weir_rule_store_list(drive->store, strtoull(words[1], NULL, 10), strtoull(words[2], NULL, 10),
                                     deadline(drive), print_listed, &first, &drive->fault);
    printf("],\"answer\":");
    print_status(drive, error);
    printf("}}\n");
}

static struct weir_rule_change change_of(uint64_t expected, const char *text)
{
    struct weir_rule_change change = { .expected = expected,
                                       .kind = WEIR_RULE_APPLIED,
                                       .author = "ann",
                                       .comment = "be\xe2\x82\xac''\\cause",
                                       .text = { text, strlen(text) },
                                       .wall_ns = UINT64_C(1700000000000000000) + expected };
    if (weir_rule_change_id(change.change) != 0)
        abort();
    return change;
}

static void ask_append(struct drive *drive, const struct weir_rule_change *change)
{
    struct weir_rule_appended appended = { 0 };
    int error = weir_rule_store_append(drive->store, change, deadline(drive), &appended, &drive->fault);
    print_status(drive, error);
    if (!error) {
        printf(",\"said\":\"%s\",\"again\":%s,\"own\":%" PRIu64,
               appended.said == WEIR_RULE_APPENDED ? "appended" : "conflict", appended.again ? "true" : "false",
               appended.number);
        print_head(&appended.head);
    }
    print_hex("change", change->change, sizeof change->change);
    printf("}\n");
}

static void do_append(struct drive *drive, char **words)
{
    struct weir_rule_change change = change_of(strtoull(words[1], NULL, 10), words[5]);
    if (strcmp(words[2], "-") != 0 && !weir_hex_read(words[2], sizeof change.change, change.change))
        abort();
    change.kind = strcmp(words[3], "rollback") == 0 ? WEIR_RULE_ROLLBACK
                  : strcmp(words[3], "import") == 0 ? WEIR_RULE_IMPORT
                                                    : WEIR_RULE_APPLIED;
    change.of = strtoull(words[4], NULL, 10);
    if (change.kind == WEIR_RULE_ROLLBACK)
        change.text.size = 0;
    ask_append(drive, &change);
}

static void do_large(struct drive *drive, char **words)
{
    size_t size = strtoull(words[2], NULL, 10);
    char *text = calloc(1, size + 1);
    if (!text)
        abort();
    memset(text, 'x', size);
    struct weir_rule_change change = change_of(strtoull(words[1], NULL, 10), text);
    ask_append(drive, &change);
    free(text);
}

static void do_tell(struct drive *drive, char **words)
{
    struct weir_rule_told told = { .version = strtoull(words[2], NULL, 10), .since_ns = strtoull(words[3], NULL, 10) };
    (void)snprintf(told.node, sizeof told.node, "%s", words[1]);
    print_status(drive, weir_rule_store_tell(drive->store, &told, deadline(drive), &drive->fault));
    printf("}\n");
}

static bool print_told(void *context, const struct weir_rule_told *told)
{
    bool *first = context;
    printf("%s[\"%s\",%" PRIu64 ",%" PRIu64 "]", *first ? "" : ",", told->node, told->version, told->since_ns);
    *first = false;
    return true;
}

static void do_told(struct drive *drive, char **words)
{
    bool first = true;
    printf("{\"told\":[");
    int error = weir_rule_store_told(drive->store, strcmp(words[1], "newest") == 0, deadline(drive), print_told, &first,
                                     &drive->fault);
    printf("],\"answer\":");
    print_status(drive, error);
    printf("}}\n");
}

static void do_migrate(struct drive *drive, char **words)
{
    unsigned to = (unsigned)strtoul(words[1], NULL, 10);
    print_status(drive, weir_rule_store_migrate(drive->store, to, deadline(drive), &drive->fault));
    printf("}\n");
}

static void do_hammer(struct drive *drive, char **words)
{
    struct weir_rule_head head = { 0 };
    for (uint64_t left = strtoull(words[1], NULL, 10); left > 0;) {
        struct weir_rule_appended appended;
        struct weir_rule_change change = change_of(head.number, "text");
        int error;
        do
            error = weir_rule_store_append(drive->store, &change, deadline(drive), &appended, &drive->fault);
        while (error == WEIR_EUNKNOWN || error == WEIR_EDOWN);
        if (error) {
            print_status(drive, error);
            printf("}\n");
            return;
        }
        head = appended.head;
        if (appended.said != WEIR_RULE_APPENDED)
            continue;
        left--;
        print_status(drive, 0);
        printf(",\"own\":%" PRIu64 ",\"again\":%s", appended.number, appended.again ? "true" : "false");
        print_hex("change", change.change, sizeof change.change);
        printf("}\n");
        fflush(stdout);
    }
}

/* ---- exceptions ---- */

static struct weir_exception_change exception_of(const char *kind, const char *user, char key[128])
{
    size_t size = 0;
    const bool bans = strcmp(kind, "ban") == 0, ends = strcmp(kind, "unban") == 0;
    const bool resets = strcmp(kind, "reset") == 0;
    struct weir_exception_change change = { .kind = ends     ? WEIR_EXCEPTION_UNBAN
                                                    : bans   ? WEIR_EXCEPTION_BAN
                                                    : resets ? WEIR_EXCEPTION_RESET
                                                             : WEIR_EXCEPTION_LEVEL,
                                            .level = bans || ends || resets ? NULL : kind,
                                            .limit = "api",
                                            .author = "ann",
                                            .comment = "be\xe2\x82\xac''\\cause" };
    if (!weir_exception_key_add(key, 128, &size, (struct weir_slice){ "user", 4 }) ||
        !weir_exception_key_add(key, 128, &size, (struct weir_slice){ user, strlen(user) }) ||
        weir_rule_change_id(change.change) != 0)
        abort();
    change.key = (struct weir_slice){ key, size };
    return change;
}

static void do_except(struct drive *drive, char **words)
{
    char key[128];
    uint64_t number = 0;
    struct weir_exception_change change = exception_of(words[1], words[2], key);
    change.until_ns = strtoull(words[3], NULL, 10);
    change.wall_ns = strtoull(words[4], NULL, 10);
    if (strcmp(words[5], "-") != 0 && !weir_hex_read(words[5], sizeof change.change, change.change))
        abort();
    print_status(drive, weir_rule_store_except(drive->store, &change, deadline(drive), &number, &drive->fault));
    printf(",\"own\":%" PRIu64, number);
    print_hex("change", change.change, sizeof change.change);
    printf("}\n");
}

static bool print_exception(void *context, const struct weir_exception *exception)
{
    bool *first = context;
    printf("%s{\"number\":%" PRIu64 ",\"damaged\":%s", *first ? "" : ",", exception->number,
           exception->damaged ? "true" : "false");
    *first = false;
    if (!exception->damaged) {
        printf(",\"kind\":%d,\"wall_ns\":%" PRIu64 ",\"until_ns\":%" PRIu64 ",\"key\":\"%.*s\",\"comment\":",
               exception->kind, exception->wall_ns, exception->until_ns, (int)exception->key.size,
               (const char *)exception->key.data);
        print_string(exception->comment);
        printf(",\"level\":\"%s\"", exception->level);
        print_hex("change", exception->change, sizeof exception->change);
    }
    printf("}");
    return true;
}

static void do_exceptions(struct drive *drive, char **words)
{
    bool first = true;
    const struct weir_exception_query query = { .from = strtoull(words[1], NULL, 10),
                                                .count_max = strtoull(words[2], NULL, 10),
                                                .holding_at_ns = strtoull(words[3], NULL, 10) };
    printf("{\"exceptions\":[");
    int error = weir_rule_store_exceptions(drive->store, &query, deadline(drive), print_exception, &first,
                                           &drive->fault);
    printf("],\"answer\":");
    print_status(drive, error);
    printf("}}\n");
}

static bool take_none(void *context, const struct weir_exception *exception)
{
    *(uint64_t *)context = exception->number;
    return true;
}

static void do_heard(struct drive *drive, char **words)
{
    const struct weir_exception_query query = { .from = strtoull(words[1], NULL, 10), .count_max = 1 };
    const uint64_t until_ns = deadline(drive);
    uint64_t found = 0;
    int error = 0;
    while (found == 0 && weir_rule_now_ns() < until_ns)
        if (weir_rule_store_wait(drive->store, until_ns)) {
            error = weir_rule_store_head(drive->store, until_ns, &drive->head, &drive->fault);
            if (!error)
                error = weir_rule_store_exceptions(drive->store, &query, until_ns, take_none, &found, &drive->fault);
        }
    print_status(drive, error);
    printf(",\"found\":%" PRIu64 "}\n", found);
}

static void do_bounds(struct drive *drive, char **words)
{
    drive->store->exceptions_max = strtoull(words[1], NULL, 10);
    drive->store->changes_max = strtoull(words[2], NULL, 10);
    printf("{}\n");
}

static void do_hammer_except(struct drive *drive, char **words)
{
    for (uint64_t i = 0, count = strtoull(words[1], NULL, 10); i < count; i++) {
        char key[128], user[64];
        uint64_t number = 0;
        (void)snprintf(user, sizeof user, "u%" PRIu64, i);
        struct weir_exception_change change = exception_of("ban", user, key);
        int error;
        do
            error = weir_rule_store_except(drive->store, &change, deadline(drive), &number, &drive->fault);
        while (error == WEIR_EUNKNOWN || error == WEIR_EDOWN);
        print_status(drive, error);
        printf(",\"own\":%" PRIu64, number);
        print_hex("change", change.change, sizeof change.change);
        printf("}\n");
        fflush(stdout);
    }
}

static void do_timeout(struct drive *drive, char **words)
{
    drive->timeout_ms = strtoull(words[1], NULL, 10);
    printf("{}\n");
}

static const struct {
    const char *name;
    int words; /* with the name */
    void (*run)(struct drive *drive, char **words);
} VERBS[] = {
    { "timeout", 2, do_timeout },
    { "head", 1, do_head },
    { "wait", 1, do_wait },
    { "read", 2, do_read },
    { "list", 3, do_list },
    { "append", 6, do_append },
    { "large", 3, do_large },
    { "tell", 4, do_tell },
    { "told", 2, do_told },
    { "migrate", 2, do_migrate },
    { "hammer", 2, do_hammer },
    { "except", 6, do_except },
    { "exceptions", 4, do_exceptions },
    { "bounds", 3, do_bounds },
    { "hammer-except", 2, do_hammer_except },
    { "heard", 2, do_heard },
};

static void run_line(struct drive *drive, char *line)
{
    char *words[WORDS_MAX] = { line }, *rest = NULL;
    int count = 0;
    for (char *word = strtok_r(line, " \n", &rest); word && count < WORDS_MAX; word = strtok_r(NULL, " \n", &rest))
        words[count++] = word;
    for (size_t i = 0; i < sizeof VERBS / sizeof VERBS[0]; i++)
        if (count > 0 && count == VERBS[i].words && strcmp(words[0], VERBS[i].name) == 0) {
            VERBS[i].run(drive, words);
            return;
        }
    printf("{\"status\":\"?\"}\n");
}

static const struct weir_rule_step LATER[] = {
    { .up = "ALTER TABLE @_nodes ADD COLUMN late bigint NOT NULL DEFAULT 0",
      .down = "ALTER TABLE @_nodes DROP COLUMN late" },
};

int main(int argc, char **argv)
{
    struct drive drive = { .timeout_ms = 60000 };
    static char line[1 << 16];
    if (argc != 5)
        return 2;
    const struct weir_rule_store_options options = { .spec = argv[1],
                                                     .table = strcmp(argv[2], "-") == 0 ? NULL : argv[2],
                                                     .create = strcmp(argv[3], "use") != 0,
                                                     .poll_ns = strtoull(argv[4], NULL, 10) * 1000000 };
    int error = weir_rule_store_open(&options, &drive.store, &drive.fault);
    if (!error && strcmp(argv[3], "later") == 0) {
        drive.store->schema = 2;
        drive.store->steps = LATER;
    }
    print_status(&drive, error);
    printf(",\"name\":");
    print_string(error ? "" : weir_rule_store_name(drive.store));
    printf("}\n");
    fflush(stdout);
    while (!error && fgets(line, sizeof line, stdin)) {
        run_line(&drive, line);
        fflush(stdout);
    }
    weir_rule_store_close(drive.store);
    return error ? 1 : 0;
}
