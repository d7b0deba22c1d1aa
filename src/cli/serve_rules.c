/* SPDX-License-Identifier: Apache-2.0
 *
 * The file is read first: it says whether there is a store, and all that a set of rules is judged by (the engine, the
 * nodes). Then the set that serve/follower.c has read is put to it. Called by serve_config.c for each load, and by
 * serve.c for the rest. */
#include "cli/serve_rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault_format.h"
#include "cli/serve_warn.h"
#include "modules/module.h"
#include "rules/ruleset.h"

static bool say(struct weir_serve_said *ret_said, const struct weir_fault *fault)
{
    const char *subject = weir_fault_subject(fault);
    (void)snprintf(ret_said->text, sizeof(ret_said->text), "weir: %s%s%s", subject, subject[0] ? ": " : "",
                   fault->text);
    return false;
}

/* What the store knows this weir by: its node's name (`asked`: that of the flag), or where there is but one, the
 * machine's. */
static void name_node(const struct weir_config *config, const char *asked, char ret_name[WEIR_RULE_NODE_MAX + 1])
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";
    char name[256] = "";
    if (asked || config->node_name)
        (void)snprintf(name, sizeof(name), "%s", asked ? asked : config->node_name);
    else if (gethostname(name, sizeof(name) - 1) || !name[0])
        (void)snprintf(name, sizeof(name), "alone");
    name[strspn(name, allowed)] = '\0';
    (void)snprintf(ret_name, WEIR_RULE_NODE_MAX + 1, "%.64s", name[0] ? name : "alone");
}

static bool open_store(struct weir_serve_rules *rules, const struct weir_config *config, const char *asked,
                       struct weir_serve_said *ret_said)
{
    struct weir_fault fault = { 0 }, kept = { 0 };
    const struct weir_module *module;
    char lacks[WEIR_MODULE_SAID_SIZE];
    if (strncmp(config->rules.store.data, "sqlite:", 7) != 0 &&
        weir_module_load(WEIR_MODULE_POSTGRES, &module, lacks)) { /* a fault has no room for all of it */
        (void)snprintf(ret_said->text, sizeof(ret_said->text), "weir: rules in postgres need %.500s", lacks);
        return false;
    }
    char node[WEIR_RULE_NODE_MAX + 1];
    name_node(config, asked, node);
    const struct weir_follower_options options = {
        .spec = config->rules.store.data,
        .table = config->rules.table,
        .kept = config->rules.kept,
        .poll_ns = config->rules.poll_ns,
        .timeout_ns = config->rules.timeout_ns,
        .node = node,
        .kept_fault = &kept,
    };
    int error = weir_follower_open(&options, &rules->follower, &fault);
    if (!error)
        return true;
    (void)say(ret_said, &fault);
    size_t size = strlen(ret_said->text);
    if (error == WEIR_ENOENT)
        (void)snprintf(ret_said->text + size, sizeof(ret_said->text) - size,
                       ": weir rules apply --config FILE --comment WHY RULES puts some there");
    size = strlen(ret_said->text);
    if (kept.text[0])
        (void)snprintf(ret_said->text + size, sizeof(ret_said->text) - size, "; kept here: %s", kept.text);
    return false;
}

void weir_serve_rules_say(const struct weir_serve_rules *rules, const struct weir_config_fault *fault,
                          struct weir_serve_said *ret_said)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "version %" PRIu64 " of the rules", rules->head.number);
    weir_config_fault_format(fault, name, ret_said->text, sizeof(ret_said->text));
}

/* Whether limits can be made of it; while it serves, that is found out by making them. */
static int try_out(const struct weir_config *config, struct weir_slice text, struct weir_config_faults *faults)
{
    struct weir_config *with = NULL;
    struct weir_ruleset ruleset = { 0 };
    int error = weir_config_with_rules(config, text, &with, faults);
    if (!error)
        error = weir_ruleset_of(with, &ruleset, faults);
    weir_ruleset_deinit(&ruleset);
    return error;
}

/* With the newest version that the follower has. All that is wrong with it is too long for one line: the first, and how
 * many more. */
static bool put_newest(struct weir_serve_rules *rules, struct weir_config **config, struct weir_serve_said *ret_said)
{
    struct weir_config *with = NULL;
    struct weir_config_faults *faults = calloc(1, sizeof(*faults));
    struct weir_rule_head head;
    char *text = NULL, name[64], first[480];
    size_t size = 0;
    if (!faults || weir_follower_newest(rules->follower, &head, &text, &size)) {
        free(faults);
        return say(ret_said, &(const struct weir_fault){ .text = "out of memory" });
    }
    const struct weir_slice stored = { text, size };
    int error = rules->started ? 0 : try_out(*config, stored, faults);
    if (!error)
        error = weir_config_with_rules(*config, stored, &with, faults);
    if (error) {
        (void)snprintf(name, sizeof(name), "version %" PRIu64 " of the rules", head.number);
        weir_config_fault_format(&faults->list[0], name, first, sizeof(first));
        (void)snprintf(ret_said->text, sizeof(ret_said->text), "%s%s", first, faults->count > 1 ? " (and more)" : "");
    } else {
        weir_config_destroy(*config);
        *config = with;
        rules->head = head;
    }
    free(text);
    free(faults);
    return error == 0;
}

bool weir_serve_rules_put(struct weir_serve_rules *rules, struct weir_config **config, const char *node,
                          struct weir_serve_said *ret_said)
{
    struct weir_serve_said wrong;
    struct weir_follower_view view;
    struct weir_fault fault = { 0 };
    bool first = !rules->follower, named = (*config)->rules.store.size > 0;
    if (!named && first)
        return true;
    if (!named || (first && rules->started))
        return say(ret_said, &(const struct weir_fault){ "rules", "where rules come from, the file or a store, changes "
                                                                  "with a restart only" });
    if (first && !open_store(rules, *config, node, ret_said))
        return false;
    if (put_newest(rules, config, ret_said))
        return true;
    wrong = *ret_said;
    if (!first || weir_follower_go_back(rules->follower, &fault) || !put_newest(rules, config, ret_said)) {
        *ret_said = wrong;
        return false;
    }
    weir_follower_view(rules->follower, &view);
    weir_serve_warn(*config, "%s; the version that is %s decides until there is a newer one", wrong.text,
                    view.from_kept ? "kept here" : "the newest in the store");
    return true;
}

void weir_serve_rules_format(const struct weir_serve_rules *rules, char *buffer, size_t size)
{
    struct weir_follower_view view;
    buffer[0] = '\0';
    if (!rules->follower)
        return;
    weir_follower_view(rules->follower, &view);
    (void)snprintf(buffer, size, ", version %" PRIu64 " of %.200s", rules->head.number, view.store);
}

static void changed(void *context)
{
    weir_server_new_rules(context);
}

void weir_serve_rules_print(const struct weir_serve_rules *rules, const struct weir_config *config)
{
    struct weir_follower_view view;
    if (!rules->follower)
        return;
    weir_follower_view(rules->follower, &view);
    printf("weir: rules: version %" PRIu64 " of %s\n", rules->head.number, view.store);
    if (view.from_kept && view.failing)
        weir_serve_warn(config, "the store of rules cannot be asked (%s): the version that is kept here decides",
                        view.fault);
}

struct weir_config *weir_serve_rules_before(const struct weir_serve_rules *rules, const struct weir_config *config)
{
    struct weir_config *before = NULL;
    const struct weir_slice text = rules->follower ? weir_follower_before(rules->follower)
                                                   : (struct weir_slice){ NULL, 0 };
    struct weir_config_faults *faults = text.data ? calloc(1, sizeof(*faults)) : NULL;
    if (faults && weir_config_with_rules(config, text, &before, faults))
        before = NULL; /* not for the configuration of today */
    free(faults);
    return before;
}

void weir_serve_rules_catch_up(const struct weir_serve_rules *rules)
{
    if (rules->follower)
        weir_follower_catch_up(rules->follower);
}

bool weir_serve_rules_start(struct weir_serve_rules *rules, struct weir_server *server)
{
    rules->started = true;
    if (!rules->follower)
        return true;
    if (weir_follower_start(rules->follower, changed, server) == 0)
        return true;
    fputs("weir: rules: no thread to follow their store\n", stderr);
    return false;
}

void weir_serve_rules_in_force(struct weir_serve_rules *rules, const struct weir_setup *setup)
{
    if (rules->follower)
        weir_follower_in_force(rules->follower, &setup->origin.rules, setup->config->stored, setup->origin.wall_ns);
}

void weir_serve_rules_stop(struct weir_serve_rules *rules)
{
    weir_follower_finish(rules->follower);
}

void weir_serve_rules_deinit(struct weir_serve_rules *rules)
{
    weir_follower_destroy(rules->follower);
    *rules = (struct weir_serve_rules){ 0 };
}
