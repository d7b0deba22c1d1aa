/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs of `weir rules` on a store: reads the arguments, opens the store, and does those that only look, show and
 * diff (`diff` of the system draws it). history is in versions_history.c; what changes something is in
 * versions_apply.c. Called by rules.c. */
#include "cli/versions.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/option.h"
#include "cli/plain.h"
#include "cli/verbs.h"
#include "modules/module.h"
#include "rules/number.h"
#include "rules/rollout.h"

/* ---- looking ---- */

/* What was typed. False: said on standard error. */
static bool number_read_as(const char *what, const char *text, uint64_t most, uint64_t *ret_number)
{
    char plain[WEIR_PLAIN_SIZE(40)];
    if (weir_number_parse(text, strlen(text), ret_number) == 0 && *ret_number >= 1 && *ret_number <= most)
        return true;
    fprintf(stderr, "weir: %s \"%s\" must be a whole number, 1 to %" PRIu64 "\n", what,
            weir_plain(text, plain, sizeof(plain)), most);
    return false;
}

static bool number_read(const char *text, uint64_t *ret_number)
{
    return number_read_as("version", text, WEIR_RULE_VERSIONS_MAX, ret_number);
}

/* The one that was named, or the newest. */
static bool number_of(const struct weir_versions *versions, const char *text, uint64_t *ret_number)
{
    struct weir_rule_head head;
    if (text)
        return number_read(text, ret_number);
    if (!weir_versions_head(versions, &head))
        return false;
    *ret_number = head.number;
    if (head.number == 0)
        fprintf(stderr, "weir: %s has no version yet\n", weir_rule_store_name(versions->store));
    return head.number > 0;
}

static int show(const struct weir_versions *versions, const char *which)
{
    struct weir_rule_version version;
    uint64_t number = 0;
    char *text = NULL;
    if (!number_of(versions, which, &number) || !weir_versions_read(versions, number, &version, &text))
        return WEIR_EXIT_ERROR;
    if (version.kind == WEIR_RULE_PROPOSED) /* who edits it takes it over */
        fprintf(stderr, "weir: version %" PRIu64 " was proposed: no weir decides by it\n", number);
    printf(WEIR_RULE_FROM_FORMAT, number, version.kind == WEIR_RULE_PROPOSED ? WEIR_RULE_FROM_PROPOSED : "");
    (void)fwrite(text, 1, version.text_size, stdout);
    if (version.text_size > 0 && text[version.text_size - 1] != '\n')
        putchar('\n');
    free(text);
    return WEIR_EXIT_OK;
}

/* A file of one version, for `diff`. */
static bool write_version(const struct weir_versions *versions, uint64_t number, char ret_path[32])
{
    struct weir_rule_version version;
    char *text = NULL;
    if (!weir_versions_read(versions, number, &version, &text))
        return false;
    (void)snprintf(ret_path, 32, "/tmp/weir-rules-XXXXXX");
    int fd = mkstemp(ret_path);
    bool written = fd >= 0 && write(fd, text, version.text_size) == (ssize_t)version.text_size;
    if (!written)
        fprintf(stderr, "weir: %s: %s\n", ret_path, strerror(errno));
    if (fd >= 0)
        close(fd);
    free(text);
    return written;
}

static int run_diff(uint64_t first, const char *first_path, uint64_t second, const char *second_path)
{
    char labels[2][32];
    (void)snprintf(labels[0], sizeof(labels[0]), "version %" PRIu64, first);
    (void)snprintf(labels[1], sizeof(labels[1]), "version %" PRIu64, second);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        execlp("diff", "diff", "-u", "--label", labels[0], "--label", labels[1], first_path, second_path, (char *)NULL);
        fprintf(stderr, "weir: diff: %s (it is Debian's package diffutils)\n", strerror(errno));
        _exit(WEIR_EXIT_ERROR);
    }
    int status = 0;
    bool ended = pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status);
    return ended && WEXITSTATUS(status) <= 1 ? WEIR_EXIT_OK : WEIR_EXIT_ERROR;
}

static int diff(const struct weir_versions *versions, const char *one, const char *other)
{
    uint64_t numbers[2];
    char paths[2][32] = { "", "" };
    int code = WEIR_EXIT_ERROR;
    if (number_read(one, &numbers[0]) && number_of(versions, other, &numbers[1]) &&
        write_version(versions, numbers[0], paths[0]) && write_version(versions, numbers[1], paths[1]))
        code = run_diff(numbers[0], paths[0], numbers[1], paths[1]);
    for (size_t i = 0; i < 2; i++)
        if (paths[i][0])
            (void)unlink(paths[i]);
    return code;
}

/* ---- arguments ---- */

bool weir_versions_open(struct weir_versions *versions, bool create)
{
    struct weir_config_fault wrong = { 0 };
    struct weir_fault fault = { 0 };
    char text[512], lacks[WEIR_MODULE_SAID_SIZE];
    const struct weir_module *module;
    if (weir_config_load(versions->config_file, &versions->config, &wrong)) {
        weir_config_fault_format(&wrong, versions->config_file, text, sizeof(text));
        fprintf(stderr, "%s\n", text);
        return false;
    }
    const struct weir_config_rules *rules = &versions->config->rules;
    if (rules->store.size == 0) {
        fprintf(stderr, "weir: %s names no store of rules: rules: { store: \"sqlite:PATH\" }\n", versions->config_file);
        return false;
    }
    if (strncmp(rules->store.data, "sqlite:", 7) != 0 && weir_module_load(WEIR_MODULE_POSTGRES, &module, lacks)) {
        fprintf(stderr, "weir: rules in postgres need %s\n", lacks);
        return false;
    }
    const struct weir_rule_store_options options = { .spec = rules->store.data,
                                                     .table = rules->table,
                                                     .create = create };
    int error = weir_rule_store_open(&options, &versions->store, &fault);
    return error ? weir_versions_complain(versions, error, &fault) : true;
}

const char *weir_versions_author(void)
{
    const char *name = getenv("LOGNAME");
    name = name && name[0] ? name : getenv("USER");
    return name && name[0] ? name : "unknown";
}

/* 0 is one too: that there was none. */
static int from_read(void *versions, const char *name, char *value)
{
    uint64_t *from = &((struct weir_versions *)versions)->from;
    (void)name;
    *from = 0;
    return strcmp(value, "0") == 0 || number_read_as("--from", value, WEIR_RULE_VERSIONS_MAX, from) ? 0
                                                                                                    : WEIR_EXIT_ERROR;
}

static int count_read(void *versions, const char *name, char *value)
{
    uint64_t *count = &((struct weir_versions *)versions)->count;
    (void)name;
    return number_read_as("--count", value, WEIR_RULE_LIST_MAX, count) ? 0 : WEIR_EXIT_ERROR;
}

/* "10", "12.5", and with a percent sign. False: said on standard error. */
static bool share_read(const char *text, uint32_t *ret_share)
{
    char plain[WEIR_PLAIN_SIZE(40)];
    const size_t size = strlen(text);
    if (weir_rollout_parse(text, size - (size > 0 && text[size - 1] == '%'), ret_share) == 0)
        return true;
    fprintf(stderr, "weir: \"%s\" must be a percentage of the keys, 0.1 to 100, with one decimal at most\n",
            weir_plain(text, plain, sizeof(plain)));
    return false;
}

static int usage(const char *verb)
{
    fprintf(stderr, "weir: rules %s: wrong arguments; try weir rules --help\n", verb);
    return WEIR_EXIT_ERROR;
}

static int run(struct weir_versions *versions, const char *verb, int count, char **rest)
{
    const bool approves = strcmp(verb, "approve") == 0, by_number = approves || strcmp(verb, "rollback") == 0;
    const bool rolls = strcmp(verb, "rollout") == 0, imports = strcmp(verb, "import") == 0;
    const bool changes = by_number || rolls || strcmp(verb, "apply") == 0;
    uint64_t number = 0;
    uint32_t share = 0;
    const int least = rolls ? 2 : changes || imports || strcmp(verb, "diff") == 0;
    const int most = strcmp(verb, "history") == 0 || strcmp(verb, "export") == 0 ? 0
                     : rolls || strcmp(verb, "diff") == 0                        ? 2
                                                                                 : 1;
    if (!versions->config_file) {
        fprintf(stderr, "weir: rules %s: say which configuration: --config FILE\n", verb);
        return WEIR_EXIT_ERROR;
    }
    if (count < least || count > most)
        return usage(verb);
    if (changes && !versions->comment) {
        fprintf(stderr, "weir: rules %s: say why: --comment WHY\n", verb);
        return WEIR_EXIT_ERROR;
    }
    if (by_number && !number_read(rest[0], &number))
        return WEIR_EXIT_ERROR;
    if (rolls && !share_read(rest[0], &share))
        return WEIR_EXIT_ERROR;
    if (!weir_versions_open(versions, (changes || imports) && !versions->dry_run))
        return WEIR_EXIT_ERROR;
    if (imports)
        return weir_versions_import(versions, rest[0]);
    if (strcmp(verb, "export") == 0)
        return weir_versions_export(versions);
    if (strcmp(verb, "show") == 0)
        return show(versions, rest[0]);
    if (strcmp(verb, "list") == 0)
        return rest[0] && !number_read(rest[0], &number) ? WEIR_EXIT_ERROR : weir_versions_list(versions, number);
    if (strcmp(verb, "diff") == 0)
        return diff(versions, rest[0], count > 1 ? rest[1] : NULL);
    if (rolls || strcmp(verb, "apply") == 0)
        return weir_versions_apply(versions, rest[rolls], share);
    if (approves)
        return weir_versions_approve(versions, number);
    return number ? weir_versions_roll_back(versions, number) : weir_versions_history(versions);
}

int weir_cli_versions(int argc, char **argv, const char *help)
{
    struct weir_versions versions = {
        .author = weir_versions_author(), .from = WEIR_RULE_FROM_ANY, .count = 20, .progress = isatty(STDERR_FILENO)
    };
    const struct weir_option options[] = {
        { "config", .text = &versions.config_file },
        { "comment", .text = &versions.comment },
        { "author", .text = &versions.author },
        { "from", .read = from_read },
        { "count", .read = count_read },
        { "dry-run", .given = &versions.dry_run },
        { "json", .given = &versions.json },
        { "propose", .given = &versions.propose },
        WEIR_OPTIONS_HELP,
    };
    const int read = weir_options_read(argc, argv, options, &versions, help, NULL);
    if (read != WEIR_OPTIONS_READ)
        return read;
    int code = run(&versions, argv[0], argc - optind, argv + optind);
    weir_rule_store_close(versions.store);
    weir_config_destroy(versions.config);
    return code;
}
