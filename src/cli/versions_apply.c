/* SPDX-License-Identifier: Apache-2.0
 *
 * `weir rules apply` and `rollback`: a text is checked as a server would, compared with the newest version, and stored
 * if that is still the one it was made from. Where nobody answers, the store is asked again with the change's own id.
 * Called by versions_verbs.c. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plain.h"
#include "cli/ruleset.h"
#include "cli/verbs.h"
#include "cli/versions.h"

#define TRIES 3
#define HEADER "# from version " /* what `show` puts before the text */

static bool read_all(FILE *file, const char *path, char **ret_text, size_t *ret_size)
{
    char *text = malloc(WEIR_RULE_TEXT_MAX + 1);
    size_t size = text ? fread(text, 1, WEIR_RULE_TEXT_MAX + 1, file) : 0;
    if (!text || ferror(file) || size > WEIR_RULE_TEXT_MAX) {
        fprintf(stderr, "weir: %s: %s\n", path,
                text && size > WEIR_RULE_TEXT_MAX ? "a set of rules may have at most 16 MiB"
                                                  : strerror(text ? errno : ENOMEM));
        free(text);
        return false;
    }
    *ret_text = text;
    *ret_size = size;
    return true;
}

static bool read_file(const char *path, char **ret_text, size_t *ret_size)
{
    if (strcmp(path, "-") == 0)
        return read_all(stdin, path, ret_text, ret_size);
    FILE *file = fopen(path, "rbe");
    if (!file) {
        fprintf(stderr, "weir: %s: %s\n", path, strerror(errno));
        return false;
    }
    bool read = read_all(file, path, ret_text, ret_size);
    (void)fclose(file);
    return read;
}

/* Takes the line that `show` put there off the text, and says what it says. An editor may have put a byte order mark
 * before it, and a carriage return behind it. */
static void take_header(struct weir_slice *text, uint64_t *ret_from)
{
    const size_t size = sizeof(HEADER) - 1;
    const char *data = text->data, *end = memchr(data, '\n', text->size);
    const size_t mark = text->size >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    char *last = NULL;
    if (!end || text->size - mark < size || memcmp(data + mark, HEADER, size) != 0)
        return;
    unsigned long long number = strtoull(data + mark + size, &last, 10);
    if ((last != end && (*last != '\r' || last + 1 != end)) || number > WEIR_RULE_VERSIONS_MAX)
        return;
    *ret_from = number;
    *text = (struct weir_slice){ end + 1, text->size - (size_t)(end + 1 - data) };
}

/* As a server would: all that is wrong is printed. */
static bool check(const struct weir_versions *versions, const char *file, struct weir_slice text)
{
    struct weir_config *config = NULL;
    struct weir_ruleset ruleset = { 0 };
    struct weir_config_faults *faults = calloc(1, sizeof(*faults));
    char line[1024], plain[WEIR_PLAIN_SIZE(sizeof(line))];
    if (!faults)
        return false;
    int error = weir_config_with_rules(versions->config, text, &config, faults);
    if (!error)
        error = weir_ruleset_of(config, &ruleset, faults);
    for (size_t i = 0; error && i < faults->count; i++) {
        weir_config_fault_format(&faults->list[i], file, line, sizeof(line));
        fprintf(stderr, "%s\n", weir_plain(line, plain, sizeof(plain)));
    }
    weir_ruleset_deinit(&ruleset);
    free(faults);
    return error == 0;
}

/* Nothing was stored; the exit code. */
static int conflict(uint64_t newest, uint64_t from)
{
    char hint[80] = "";
    if (from > newest)
        (void)snprintf(hint, sizeof(hint), ", which is not there yet");
    else if (from > 0)
        (void)snprintf(hint, sizeof(hint), "; weir rules diff %" PRIu64 " says what changed meanwhile", from);
    fprintf(stderr,
            "weir: nothing was stored: version %" PRIu64 " is the newest, and this was made from %" PRIu64 "%s\n",
            newest, from, hint);
    return WEIR_EXIT_REFUSED;
}

/* Stores it; the exit code. Once it is not known, a store that cannot be asked does not make it known. */
static int append(const struct weir_versions *versions, const struct weir_rule_change *change, const char *changes)
{
    struct weir_rule_appended appended;
    struct weir_fault fault = { 0 };
    char plain[WEIR_PLAIN_SIZE(600)];
    bool unknown = false;
    int error = WEIR_EUNKNOWN;
    for (int i = 0; i < TRIES && (error == WEIR_EUNKNOWN || (error && unknown)); i++) {
        error = weir_rule_store_append(versions->store, change, weir_versions_deadline(versions), &appended, &fault);
        unknown |= error == WEIR_EUNKNOWN;
    }
    if (error && unknown)
        fprintf(stderr, "weir: it is not known whether it was stored: weir rules history says\n");
    if (error) {
        (void)weir_versions_complain(versions, error, &fault);
        return WEIR_EXIT_ERROR;
    }
    if (appended.said == WEIR_RULE_CONFLICT)
        return conflict(appended.head.number, change->expected);
    printf("version %" PRIu64 ": %s\n", appended.number, weir_plain(changes, plain, sizeof(plain)));
    return WEIR_EXIT_OK;
}

/* The newest version, and its text ("" if there is none). What would be is told before there is a store, too. */
static bool newest(const struct weir_versions *versions, struct weir_rule_head *ret_head, char **ret_text,
                   size_t *ret_size)
{
    struct weir_rule_version version;
    struct weir_fault fault = { 0 };
    *ret_text = NULL;
    *ret_size = 0;
    *ret_head = (struct weir_rule_head){ 0 };
    int error = weir_rule_store_head(versions->store, weir_versions_deadline(versions), ret_head, &fault);
    if (error && !(error == WEIR_ENOENT && versions->dry_run))
        return weir_versions_complain(versions, error, &fault);
    if (ret_head->number == 0)
        return true;
    bool read = weir_versions_read(versions, ret_head->number, &version, ret_text);
    *ret_size = read ? version.text_size : 0;
    return read;
}

/* Gives it its id and its time, and looks at it before a store is made for it. */
static bool prepare(const struct weir_versions *versions, struct weir_rule_change *change)
{
    struct weir_fault fault = { 0 };
    int error = weir_rule_change_id(change->change);
    change->wall_ns = weir_time_read().wall_ns;
    struct weir_rule_change copy = *change;
    copy.expected = copy.of; /* it may not be known yet */
    if (!error)
        error = weir_rule_change_check(&copy, &fault);
    return error ? weir_versions_complain(versions, error, &fault) : true;
}

static int put(const struct weir_versions *versions, const char *file, struct weir_slice text,
               struct weir_rule_change *change)
{
    struct weir_versions_changes changes;
    struct weir_rule_head head;
    char *before = NULL, plain[WEIR_PLAIN_SIZE(sizeof(changes.text))];
    size_t size = 0;
    int code = WEIR_EXIT_ERROR;
    if (!check(versions, file, text) || !prepare(versions, change) || !newest(versions, &head, &before, &size))
        return code;
    if (change->expected == UINT64_MAX && head.number > 0) {
        fprintf(stderr,
                "weir: which version was %s made from? --from %" PRIu64 " is the newest; what weir rules show printed "
                "says it by itself\n",
                file, head.number);
        free(before);
        return code;
    }
    change->expected = change->expected == UINT64_MAX ? 0 : change->expected;
    weir_versions_change(versions, (struct weir_slice){ before, size }, text, &changes);
    const char *what = changes.text[0] ? changes.text : "no limit has other numbers";
    if (versions->dry_run) {
        printf("would change: %s\n", weir_plain(what, plain, sizeof(plain)));
        code = head.number == change->expected ? WEIR_EXIT_OK : WEIR_EXIT_REFUSED;
        if (code)
            fprintf(stderr, "weir: version %" PRIu64 " is the newest by now\n", head.number);
    } else if (size == text.size && size > 0 && memcmp(before, text.data, size) == 0) {
        printf("nothing to do: version %" PRIu64 " says the same\n", head.number);
        code = WEIR_EXIT_OK;
    } else {
        code = append(versions, change, what);
    }
    free(before);
    return code;
}

int weir_versions_apply(const struct weir_versions *versions, const char *file)
{
    char *bytes = NULL;
    size_t size = 0;
    struct weir_rule_change change = {
        .expected = versions->from, .kind = WEIR_RULE_APPLIED, .author = versions->author, .comment = versions->comment
    };
    if (!read_file(file, &bytes, &size))
        return WEIR_EXIT_ERROR;
    struct weir_slice text = { bytes, size };
    uint64_t from = UINT64_MAX;
    take_header(&text, &from);
    change.expected = versions->from == UINT64_MAX ? from : versions->from;
    change.text = text;
    int code = put(versions, file, text, &change);
    free(bytes);
    return code;
}

int weir_versions_roll_back(const struct weir_versions *versions, uint64_t number)
{
    struct weir_rule_version version;
    struct weir_rule_head head;
    char *text = NULL, name[40];
    if (!weir_versions_head(versions, &head) || !weir_versions_read(versions, number, &version, &text))
        return WEIR_EXIT_ERROR;
    struct weir_rule_change change = { .expected = versions->from == UINT64_MAX ? head.number : versions->from,
                                       .kind = WEIR_RULE_ROLLBACK,
                                       .of = number,
                                       .author = versions->author,
                                       .comment = versions->comment };
    (void)snprintf(name, sizeof(name), "version %" PRIu64, number);
    int code = put(versions, name, (struct weir_slice){ text, version.text_size }, &change);
    free(text);
    return code;
}
