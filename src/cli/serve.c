/* SPDX-License-Identifier: Apache-2.0
 *
 * The verb `weir serve`, called by main.c. It makes configuration, limiter, setup and lock engine, in this order,
 * prints what is served, and runs the server (serve/server.c) until a signal ends it. The server calls back
 * make_next_setup(), for SIGHUP and when other nodes have newer definitions of limits (`again`): it makes the next
 * setup and says what changed. The command line is read in serve_flags.c; how flags and file become a configuration is
 * in serve_config.c. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"
#include "cli/notes.h"
#include "cli/plain.h"
#include "cli/serve_envoy.h"
#include "cli/serve_flags.h"
#include "cli/serve_listens.h"
#include "cli/serve_locks.h"
#include "cli/serve_needs.h"
#include "cli/serve_rules.h"
#include "cli/serve_sessions.h"
#include "cli/serve_site.h"
#include "cli/serve_state.h"
#include "cli/serve_takeover.h"
#include "cli/serve_warn.h"
#include "cli/verbs.h"
#include "rules/changes.h"
#include "rules/revise.h"
#include "serve/server.h"

struct serving {
    char **command; /* the program and its arguments */
    struct weir_serve_flags flags;
    struct weir_serve_state state;
    struct weir_serve_rules rules;
    struct weir_serve_envoy envoy;
    struct weir_takeover_join *join; /* NULL: it takes over from nobody */
    struct weir_serve_fixed fixed;   /* as it was at the start */
    struct weir_config_locks locks;  /* as well */
    struct weir_arena *arena;        /* of their texts */
    struct weir_serve_site site;
    const struct weir_grpc_library *grpc; /* NULL: nothing listens for it */
    uint8_t cluster_secret[16];
};

/* ---- configuration ---- */

static void said_print(const struct weir_serve_said *said)
{
    weir_plain_print(stderr, (struct weir_slice){ said->text, strlen(said->text) });
    fputc('\n', stderr);
}

static struct weir_config *load_or_print(struct serving *serving)
{
    struct weir_serve_said said;
    struct weir_config *config = weir_serve_config_load(&serving->flags, &serving->rules, &serving->envoy,
                                                        WEIR_RELOAD_NONE, NULL, &said);
    if (!config)
        said_print(&said);
    return config;
}

static struct weir_setup *make_or_print(const struct serving *serving, struct weir_config *config)
{
    struct weir_serve_said said;
    struct weir_setup *setup = weir_serve_setup_make(&serving->flags, &serving->rules, &serving->envoy,
                                                     serving->state.limiter, NULL, config, "start", &said);
    if (setup)
        setup->origin.rules = serving->rules.head;
    else
        said_print(&said);
    return setup;
}

/* "; 2 are defined by other nodes": those of the file that do not decide, as far as is known at this moment. */
static void say_replaced(const struct weir_config *config, char *ret_text, size_t size)
{
    size_t count = 0;
    for (size_t i = 0; i < config->limits_count; i++)
        count += config->limits[i].replaced || config->limits[i].undecidable;
    ret_text[0] = '\0';
    if (count > 0)
        (void)snprintf(ret_text, size, "; %zu %s defined by other nodes", count, count == 1 ? "is" : "are");
}

/* "changed: api 100/min -> 200/min; on this node alone until ...: ..."; "" if all limits are as they were. */
static void say_changes(const struct weir_changes *changes, char *ret_text, size_t size)
{
    ret_text[0] = '\0';
    if (changes->count > 0)
        (void)snprintf(ret_text, size, "changed: %s%s%s", changes->text,
                       changes->alone[0] ? "; on this node alone until the others are reloaded: " : "", changes->alone);
}

/* What is surprising now and was not before: a start says it of all. */
static const char *new_note(const struct weir_config *before, const struct weir_config *now)
{
    const char *unasked = weir_note_unasked(before) ? NULL : weir_note_unasked(now);
    const char *uncounted = weir_note_uncounted(before) ? NULL : weir_note_uncounted(now);
    const char *admin = weir_note_admin(before) ? NULL : weir_note_admin(now);
    return admin ? admin : unasked ? unasked : uncounted ? uncounted : "";
}

/* What the file says otherwise than what decides, with `revisions` in it. NULL: ret_said says why. */
static struct weir_config *load_next(struct serving *serving, struct weir_revisions *revisions, enum weir_reload what,
                                     const struct weir_config *in_force, char *ret_fixed, size_t fixed_size,
                                     struct weir_serve_said *ret_said)
{
    struct weir_config *config = weir_serve_config_load(&serving->flags, &serving->rules, &serving->envoy, what,
                                                        in_force, ret_said);
    if (!config)
        return NULL;
    const struct weir_serve_fixed fixed = weir_serve_fixed_of(config);
    weir_serve_fixed_differ(&serving->fixed, &fixed, ret_fixed, fixed_size);
    /* under another secret every key would start afresh */
    memcpy(config->cluster_secret, serving->cluster_secret, sizeof(config->cluster_secret));
    if (weir_config_revise(config, revisions, weir_time_read().wall_ns) == 0)
        return config;
    (void)snprintf(ret_said->text, sizeof(ret_said->text), "out of memory");
    weir_config_destroy(config);
    return NULL;
}

static const char *limits_from(const struct serving *serving, const struct weir_config *config)
{
    const char *file = config->envoy_folder ? config->envoy_folder : serving->flags.config_file;
    return file ? file : "the built-in example";
}

static struct weir_setup *make_next_setup(void *context, struct weir_revisions *revisions,
                                          const struct weir_setup *in_force, enum weir_reload what, char *ret_said,
                                          size_t said_size)
{
    const bool again = what == WEIR_RELOAD_REVISIONS;
    struct serving *serving = context;
    struct weir_serve_said said;
    struct weir_changes changes = { 0 };
    char kept[256] = "", replaced[64] = "", changed[sizeof(changes) + 80], version[256];
    const uint64_t since_ns = in_force->origin.wall_ns, now_ns = weir_time_read().wall_ns;
    struct weir_config *config = load_next(serving, revisions, what, in_force->config, kept, sizeof(kept), &said);
    if (config) /* without memory nothing is told of changes */
        (void)weir_config_changes(in_force->config, since_ns, config, now_ns, &changes);
    /* That their numbers are known now changes nothing for anybody. */
    bool same = again && changes.count == 0;
    const struct weir_rule_head rules = again ? in_force->origin.rules : serving->rules.head;
    bool newer = what == WEIR_RELOAD_RULES || !weir_rule_head_same(&rules, &in_force->origin.rules);
    const char *by = same ? in_force->origin.by : again ? "revision" : newer ? "rules" : "SIGHUP";
    const struct weir_setup *same_file = what == WEIR_RELOAD_FILE ? NULL : in_force;
    struct weir_setup *setup = weir_serve_setup_make(&serving->flags, &serving->rules, &serving->envoy,
                                                     serving->state.limiter, same_file, config, by, &said);
    if (!setup) {
        (void)snprintf(ret_said, said_size, "%s", said.text);
        return NULL;
    }
    setup->origin.wall_ns = same ? since_ns : now_ns;
    setup->origin.rules = rules;
    weir_serve_rules_format(&serving->rules, version, sizeof(version));
    say_changes(&changes, changed, sizeof(changed));
    say_replaced(setup->config, replaced, sizeof(replaced));
    const char *note = new_note(in_force->config, setup->config);
    if (again)
        (void)snprintf(ret_said, said_size, "%s", changed);
    else
        (void)snprintf(ret_said, said_size, "%zu limit%s of %s%s%s%s%s%s%s%s%s%s%s", weir_rules_count(setup->rules),
                       weir_s(weir_rules_count(setup->rules)), limits_from(serving, setup->config), version, replaced,
                       changed[0] ? "; " : "", changed, note[0] ? "; " : "", note, said.text[0] ? "; " : "", said.text,
                       kept[0] ? "; changed, but kept until a restart: " : "", kept);
    return setup;
}

static bool rules_changed(void *context)
{
    struct serving *serving = context;
    return weir_serve_envoy_changed(&serving->envoy);
}

static void moved(void *context, const struct weir_setup *setup)
{
    struct serving *serving = context;
    weir_serve_rules_in_force(&serving->rules, setup);
}

static void print_notes(const struct weir_config *config)
{
    const char *const notes[] = { weir_note_uncounted(config), weir_note_unasked(config), weir_note_admin(config) };
    for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++)
        if (notes[i])
            printf("weir: %s\n", notes[i]);
}

/* `weir serve --check FILE`: everything that a start would find wrong, short of listening. */
static int check_with(struct serving *serving)
{
    const struct weir_serve_flags *flags = &serving->flags;
    struct weir_config *config = load_or_print(serving);
    if (!config)
        return WEIR_EXIT_ERROR;
    weir_serve_flags_warn(config);
    if (!weir_serve_needs(config, &serving->grpc) || !weir_serve_state_check(flags, config) ||
        !weir_serve_limiter_make(flags, config, NULL, &serving->state.limiter)) {
        weir_config_destroy(config);
        return WEIR_EXIT_ERROR;
    }
    struct weir_setup *setup = make_or_print(serving, config);
    size_t count = setup ? weir_rules_count(setup->rules) : 0;
    if (setup && config->locks.engine != WEIR_LOCKS_NONE)
        printf("weir: %s is fine, %zu limit%s, locks in %s\n", flags->check_file, count, weir_s(count),
               weir_config_lock_engine_name(config->locks.engine));
    else if (setup)
        printf("weir: %s is fine, %zu limit%s\n", flags->check_file, count, weir_s(count));
    if (setup)
        print_notes(config);
    weir_setup_destroy(setup);
    weir_limiter_destroy(serving->state.limiter);
    return setup ? WEIR_EXIT_OK : WEIR_EXIT_ERROR;
}

static int check(struct weir_serve_flags *flags)
{
    flags->config_file = flags->check_file;
    struct serving serving = { .flags = *flags };
    int code = check_with(&serving);
    weir_serve_rules_deinit(&serving.rules);
    weir_serve_envoy_deinit(&serving.envoy);
    return code;
}

/* ---- serving ---- */

static void print_engine(const struct weir_config *config)
{
    const struct weir_config_redis *redis = &config->redis;
    const struct weir_address *first = redis->servers;
    if (redis->servers_count > 0 && first->kind == WEIR_ADDRESS_UNIX)
        printf("weir: engine redis at unix:%s", first->path);
    else if (redis->servers_count > 0)
        printf("weir: engine redis at %s:%u", first->host, first->port);
    if (redis->servers_count > 1)
        printf(" and %zu more", redis->servers_count - 1);
    if (redis->servers_count > 0)
        putchar('\n');
    if (config->nodes_count > 0)
        printf("weir: node %s, one of %zu\n", config->node_name, config->nodes_count);
}

/* Whether proxies can ask: who upgrades, and whoever wonders about a 404, reads it here. */
static void print_auth(const struct weir_config *config)
{
    if (config->http.kind == WEIR_ADDRESS_OFF)
        return;
    if (config->http_rules.forwarded == WEIR_FORWARDED_NONE)
        puts("weir: no proxy can ask at /v1/auth (forwarded: none)");
    else
        printf("weir: proxies that can ask at /v1/auth: %s\n",
               weir_forwarded_source_name(config->http_rules.forwarded));
}

/* A SIGHUP or SIGUSR2 that comes before the server hears it would end the process: it waits until then. */
static void hold_signals(int how)
{
    sigset_t held;
    sigemptyset(&held);
    sigaddset(&held, SIGHUP);
    sigaddset(&held, SIGUSR2);
    pthread_sigmask(how, &held, NULL);
}

/* A successor had its turn with the store of the locks, and did not take over. */
static int reopen_locks(void *context, struct weir_lock_engine **ret_engine)
{
    const struct serving *serving = context;
    return weir_cli_locks_open(&serving->locks, false, ret_engine);
}

static void print_served(struct serving *serving, const struct weir_server *server,
                         const struct weir_server_options *options, const struct weir_config *config,
                         const struct weir_lock_engine *locks)
{
    for (size_t i = 0; i < options->listen_count; i++) {
        const char *where = weir_server_listens_on(server, i);
        if (where)
            printf("weir: %s listening on %s\n", options->listens[i].protocol->name, where);
    }
    print_auth(config);
    print_engine(config);
    print_notes(config);
    weir_cli_locks_print(config, locks);
    weir_cli_sessions_print(config);
    weir_serve_rules_print(&serving->rules, config);
    fflush(stdout);
    if (weir_server_connections_max(server) < config->server.connections_max)
        weir_serve_warn(config, "there are descriptors for %zu connection%s only (ulimit -n)",
                        weir_server_connections_max(server), weir_s(weir_server_connections_max(server)));
}

/* What a reload does not change is as it was at the start. */
static bool keep_fixed(struct serving *serving, const struct weir_config *config)
{
    serving->fixed = weir_serve_fixed_of(config);
    memcpy(serving->cluster_secret, config->cluster_secret, sizeof(serving->cluster_secret));
    serving->arena = weir_arena_create();
    return serving->arena && weir_cli_locks_copy(&config->locks, serving->arena, &serving->locks);
}

static int run_server(struct serving *serving, struct weir_server *server)
{
    int code = WEIR_EXIT_ERROR;
    if (serving->join) /* the weir before this one decides no more */
        weir_serve_rules_catch_up(&serving->rules);
    if (serving->join && !weir_serve_takeover_decide(serving->join))
        return code;
    int error = weir_serve_rules_start(&serving->rules, server) && weir_serve_state_keep(&serving->state)
                    ? weir_server_run(server)
                    : WEIR_ENOMEM;
    weir_serve_rules_stop(&serving->rules);
    if (error)
        fprintf(stderr, "weir: %s\n", weir_error_text(error));
    return error ? code : WEIR_EXIT_OK;
}

static int run(struct serving *serving, struct weir_setup *setup)
{
    const struct weir_config *config = setup->config;
    struct weir_server_options options = {
        .limiter = serving->state.limiter,
        .saver = serving->state.saver,
        .permit_secret = serving->state.permit_secret,
        .grpc = serving->grpc,
        .setup = setup,
        .threads = serving->flags.threads ? serving->flags.threads : config->threads,
        .systemd = serving->flags.systemd,
        .site = &serving->site.place,
        .reload = make_next_setup,
        .moved = moved,
        .rules_changed = rules_changed,
        .context = serving,
        .follower = serving->rules.follower,
        .takeover_path = serving->flags.take_over,
        .command = serving->command,
        .join = serving->join,
        .reopen_locks = reopen_locks,
    };
    struct weir_server *server = NULL;
    struct weir_fault fault = { 0 };
    /* Where one takes over there were locks already: not to have them is no warning then. */
    bool is_example = !serving->flags.config_file && !serving->flags.locks && !serving->join;
    options.listen_count = weir_cli_listens(config, serving->flags.systemd, options.listens);
    if (serving->join)
        weir_serve_takeover_listens(serving->join, options.listens, options.listen_count);
    if (!keep_fixed(serving, config) || weir_cli_locks_open(&config->locks, is_example, &options.locks)) {
        weir_setup_destroy(setup);
        return WEIR_EXIT_ERROR;
    }
    const struct weir_lock_engine *locks = options.locks;
    struct weir_config *before = weir_serve_rules_before(&serving->rules, config);
    options.before = before;
    int error = weir_server_create(&options, &server, &fault);
    weir_config_destroy(before);
    if (error) {
        fprintf(stderr, "weir: %s\n", fault.text[0] ? fault.text : weir_error_text(error));
        weir_setup_destroy(setup);
        return WEIR_EXIT_ERROR;
    }
    hold_signals(SIG_UNBLOCK);
    print_served(serving, server, &options, config, locks);
    weir_serve_site_begin(&serving->site, config); /* last: nothing waits for it */
    int code = run_server(serving, server);
    weir_server_destroy(server);
    return code;
}

static bool begin_state(struct serving *serving, struct weir_config *config)
{
    struct weir_serve_state *state = &serving->state;
    if (!serving->join)
        return weir_serve_state_begin(&serving->flags, config, state);
    return weir_serve_takeover_ready(&serving->flags, config, serving->join) &&
           weir_serve_takeover_state(&serving->flags, config, serving->join, state);
}

/* Takes over the configuration. */
static int serve(struct serving *serving, struct weir_config *config)
{
    if (!weir_serve_needs(config, &serving->grpc) || !begin_state(serving, config)) {
        weir_config_destroy(config);
        return WEIR_EXIT_ERROR;
    }
    struct weir_setup *setup = make_or_print(serving, config);
    int code = setup ? run(serving, setup) : WEIR_EXIT_ERROR;
    if (!weir_serve_state_end(&serving->state))
        code = WEIR_EXIT_ERROR;
    return code;
}

int weir_cli_serve(int argc, char **argv)
{
    struct serving serving = { .command = argv - 1 }; /* with the program, as main has it */
    bool wants_help = false;
    hold_signals(SIG_BLOCK); /* first of all */
    int failed = weir_serve_flags_read(argc, argv, &serving.flags, &wants_help);
    if (failed || wants_help)
        return failed;
    if (serving.flags.check_file)
        return check(&serving.flags);

    struct weir_systemd systemd;
    struct weir_fault untold;
    if (!weir_cli_listens_read(&serving.flags, &systemd, &untold))
        return WEIR_EXIT_ERROR;
    struct weir_config *config = weir_serve_takeover_begin(&serving.flags, &systemd, &serving.join)
                                     ? load_or_print(&serving)
                                     : NULL;
    if (config)
        weir_serve_flags_warn(config);
    if (config && untold.text[0])
        weir_serve_warn(config, "%s %s", untold.field, untold.text);
    int code = config ? serve(&serving, config) : WEIR_EXIT_ERROR;
    weir_serve_rules_deinit(&serving.rules);
    weir_serve_envoy_deinit(&serving.envoy);
    weir_serve_site_end(&serving.site);
    weir_takeover_join_destroy(serving.join);
    weir_arena_destroy(serving.arena);
    weir_systemd_deinit(&systemd);
    return code;
}
