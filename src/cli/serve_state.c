/* SPDX-License-Identifier: Apache-2.0
 *
 * Called by serve.c before it makes the rules, and when the server has ended. A snapshot that cannot be used ends no
 * start: all keys are fresh then, and it is said. One that is somebody else's file, or in use, does. */
#include "cli/serve_state.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/plural.h"
#include "cli/serve_warn.h"
#include "serve/permit.h"

bool weir_serve_limiter_make(const struct weir_serve_flags *flags, const struct weir_config *config,
                             const uint8_t *secret, struct weir_limiter **ret_limiter)
{
    struct weir_fault fault = { 0 };
    const struct weir_limiter_options options = {
        .memory_max = flags->memory ? (size_t)flags->memory : config->memory_max,
        .log_memory_max = config->log_memory_max,
        .skew_max_ns = config->skew_max_ns,
        .skew_none = config->skew_max_ns == 0,
        .clock = WEIR_CLOCK_MONOTONIC, /* the loops' clock: they hand it in */
        .secret = secret,
        .cluster_secret = config->cluster_secret_set ? config->cluster_secret : NULL,
    };
    int error = weir_limiter_create(&options, ret_limiter, &fault);
    if (error)
        fprintf(stderr, "weir: cannot make the table: %s %s\n", fault.field,
                fault.text[0] ? fault.text : weir_error_text(error));
    return error == 0;
}

/* A limiter that is filled halfway is of no use: another one. */
static bool restore(const struct weir_serve_flags *flags, const struct weir_config *config,
                    struct weir_serve_state *state)
{
    struct weir_fault fault = { 0 };
    if (!weir_saver_secret(state->saver) || weir_saver_restore(state->saver, state->limiter, &fault) == 0)
        return true;
    weir_limiter_destroy(state->limiter);
    state->limiter = NULL;
    return weir_serve_limiter_make(flags, config, NULL, &state->limiter);
}

/* One file under both names. */
static bool is_one_file(const char *path, const char *other)
{
    struct stat a, b;
    if (!other)
        return false;
    return strcmp(path, other) == 0 ||
           (stat(path, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino);
}

bool weir_serve_state_check(const struct weir_serve_flags *flags, const struct weir_config *config)
{
    const char *path = config->snapshot_path;
    struct weir_fault fault = { 0 };
    int error = 0;
    if (path && (is_one_file(path, flags->config_file) || is_one_file(path, config->locks.path))) {
        (void)snprintf(fault.text, sizeof(fault.text), "%.80s is the %s as well: give it a file of its own", path,
                       is_one_file(path, flags->config_file) ? "configuration" : "database of the locks");
        error = WEIR_EEXIST;
    } else if (path) {
        error = weir_saver_check(path, &fault);
    }
    if (error == WEIR_EIO && flags->check_file) /* the folder may be made by who starts it, as systemd does */
        fprintf(stderr, "weir: table.snapshot: %s: weir does not start before that is mended\n", fault.text);
    else if (error && error != WEIR_EIO)
        fprintf(stderr, "weir: table.snapshot: %s\n", fault.text);
    return error == 0 || error == WEIR_EIO; /* the start says that itself */
}

static bool begin(const struct weir_serve_flags *flags, const struct weir_config *config,
                  struct weir_serve_state *state)
{
    struct weir_fault fault = { 0 };
    if (!weir_serve_state_check(flags, config))
        return false;
    if (!config->snapshot_path)
        return weir_serve_limiter_make(flags, config, NULL, &state->limiter);
    if (weir_saver_open(config->snapshot_path, config->snapshot_every_ns, &state->saver, &fault)) {
        fprintf(stderr, "weir: table.snapshot: %s\n", fault.text);
        return false;
    }
    if (!weir_serve_limiter_make(flags, config, weir_saver_secret(state->saver), &state->limiter) ||
        !restore(flags, config, state))
        return false;
    bool warns;
    const char *said = weir_saver_said(state->saver, &warns);
    if (warns)
        weir_serve_warn(config, "%s", said);
    else
        printf("weir: %s\n", said);
    return true;
}

bool weir_serve_state_begin(const struct weir_serve_flags *flags, const struct weir_config *config,
                            struct weir_serve_state *ret_state)
{
    struct weir_serve_state state = { 0 };
    bool begun = begin(flags, config, &state);
    if (begun && !(state.saver && weir_saver_permits(state.saver, &state.permit_secret)) &&
        weir_permit_secret_init(&state.permit_secret)) {
        fputs("weir: no random numbers\n", stderr);
        begun = false;
    }
    if (!begun) {
        (void)weir_serve_state_end(&state);
        return false;
    }
    *ret_state = state;
    return true;
}

bool weir_serve_state_keep(const struct weir_serve_state *state)
{
    (void)signal(SIGXFSZ, SIG_IGN); /* a file that may not be so large: the write fails, and that is said */
    if (!state->saver || weir_saver_start(state->saver, state->limiter, &state->permit_secret) == 0)
        return true;
    fputs("weir: table.snapshot: no thread for it\n", stderr);
    return false;
}

bool weir_serve_state_end(struct weir_serve_state *state)
{
    struct weir_saver_view view = { 0 };
    if (state->saver) {
        weir_saver_finish(state->saver);
        weir_saver_view(state->saver, &view);
    }
    if (view.failing)
        fprintf(stderr, "weir: what was admitted since the last snapshot is forgotten: %s\n", view.fault);
    else if (view.done > 0)
        printf("weir: counters of %" PRIu64 " key%s are in %s\n", view.keys, weir_s(view.keys), view.path);
    weir_saver_destroy(state->saver);
    weir_limiter_destroy(state->limiter);
    return !view.failing;
}
