/* SPDX-License-Identifier: Apache-2.0
 *
 * `weir rules apply`, `approve`, `rollout` and `rollback`: reads the text, has it put into the store (rules/editor.c),
 * and tells what became of it. Called by versions_verbs.c. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plain.h"
#include "cli/verbs.h"
#include "cli/versions.h"

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

static void tell_stale(uint64_t from, uint64_t newest)
{
    char hint[80] = "";
    if (from > newest)
        (void)snprintf(hint, sizeof(hint), ", which is not there yet");
    else if (from > 0)
        (void)snprintf(hint, sizeof(hint), "; weir rules diff %" PRIu64 " says what changed meanwhile", from);
    fprintf(stderr,
            "weir: nothing was stored: version %" PRIu64 " is the newest, and this was made from %" PRIu64 "%s\n",
            newest, from, hint);
}

/* What became of it, for people; the exit code. */
static int tell(const char *file, const struct weir_rule_edited *edited)
{
    const char *what = edited->changes.text[0] ? edited->changes.text : "no limit has other numbers";
    char line[1024], plain[WEIR_PLAIN_SIZE(sizeof(line))];
    switch (edited->outcome) {
    case WEIR_RULE_STORED:
        printf("version %" PRIu64 ": %s\n", edited->number, weir_plain(what, plain, sizeof(plain)));
        return WEIR_EXIT_OK;
    case WEIR_RULE_SAME:
        printf("nothing to do: version %" PRIu64 " says the same\n", edited->newest);
        return WEIR_EXIT_OK;
    case WEIR_RULE_WOULD:
        printf("would change: %s\n", weir_plain(what, plain, sizeof(plain)));
        return WEIR_EXIT_OK;
    case WEIR_RULE_STALE:
        tell_stale(edited->from, edited->newest);
        return WEIR_EXIT_REFUSED;
    case WEIR_RULE_UNNAMED:
        fprintf(stderr,
                "weir: which version was %s made from? --from %" PRIu64 " is the newest; what weir rules show printed "
                "says it by itself\n",
                file, edited->newest);
        return WEIR_EXIT_ERROR;
    case WEIR_RULE_ALONE:
        fprintf(stderr, "weir: nothing was stored: %s\n",
                weir_plain(edited->faults.list[0].text, plain, sizeof(plain)));
        return WEIR_EXIT_REFUSED;
    case WEIR_RULE_WRONG:
    default:
        for (size_t i = 0; i < edited->faults.count; i++) {
            weir_config_fault_format(&edited->faults.list[i], file, line, sizeof(line));
            fprintf(stderr, "%s\n", weir_plain(line, plain, sizeof(plain)));
        }
        return WEIR_EXIT_ERROR;
    }
}

/* `share`: of a rollout; 0: it is none. */
static int put(const struct weir_versions *versions, const char *file, uint32_t share, struct weir_rule_edit *edit)
{
    const struct weir_rule_editor editor = weir_versions_editor(versions);
    struct weir_fault fault = { 0 };
    struct weir_rule_edited *edited = calloc(1, sizeof(*edited));
    edit->author = versions->author;
    edit->comment = versions->comment;
    edit->dry_run = versions->dry_run;
    edit->wall_ns = weir_time_read().wall_ns;
    int error = !edited     ? WEIR_ENOMEM
                : share > 0 ? weir_rule_editor_roll_out(&editor, edit, share, edited, &fault)
                            : weir_rule_editor_put(&editor, edit, edited, &fault);
    int code = error ? WEIR_EXIT_ERROR : tell(file, edited);
    if (error == WEIR_EUNKNOWN)
        fprintf(stderr, "weir: it is not known whether it was stored: weir rules history says\n");
    if (error)
        (void)weir_versions_complain(versions, error, &fault);
    free(edited);
    return code;
}

int weir_versions_apply(const struct weir_versions *versions, const char *file, uint32_t share)
{
    char *bytes = NULL;
    size_t size = 0;
    struct weir_rule_edit edit = { .kind = versions->propose ? WEIR_RULE_PROPOSED : WEIR_RULE_APPLIED,
                                   .expected = WEIR_RULE_FROM_ANY,
                                   .first_only = true };
    if (!read_file(file, &bytes, &size))
        return WEIR_EXIT_ERROR;
    edit.text = (struct weir_slice){ bytes, size };
    weir_rule_from_take(&edit.text, &edit.expected);
    if (versions->from != WEIR_RULE_FROM_ANY)
        edit.expected = versions->from;
    int code = put(versions, file, share, &edit);
    free(bytes);
    return code;
}

int weir_versions_roll_back(const struct weir_versions *versions, uint64_t number)
{
    char name[40];
    struct weir_rule_edit edit = { .kind = WEIR_RULE_ROLLBACK, .expected = versions->from, .of = number };
    (void)snprintf(name, sizeof(name), "version %" PRIu64, number);
    return put(versions, name, 0, &edit);
}

int weir_versions_approve(const struct weir_versions *versions, uint64_t number)
{
    char name[40];
    struct weir_rule_edit edit = { .kind = WEIR_RULE_APPROVED, .expected = number, .of = number };
    (void)snprintf(name, sizeof(name), "version %" PRIu64, number);
    return put(versions, name, 0, &edit);
}
