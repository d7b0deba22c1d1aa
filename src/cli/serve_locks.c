/* SPDX-License-Identifier: Apache-2.0
 *
 * The first that is there decides: --locks, then `locks:` of the file, then, for the built-in example only, locks.db in
 * the state directory. Opening is left to the engines (locks/open.h); if the example's locks cannot be opened,
 * the server starts without locks and warns. serve_config.c has the locks chosen here, serve.c has them opened and
 * printed. */
#include "cli/serve_locks.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/verbs.h"
#include "locks/open.h"

/* ---- the state directory ---- */

/* $STATE_DIRECTORY (systemd's; the first of several), else $XDG_STATE_HOME/weir, else ~/.local/state/weir. */
static bool state_directory(char *path, size_t size)
{
    const char *systemd = getenv("STATE_DIRECTORY"), *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int length = -1;
    if (systemd && systemd[0] == '/')
        length = snprintf(path, size, "%.*s", (int)strcspn(systemd, ":"), systemd);
    else if (xdg && xdg[0] == '/')
        length = snprintf(path, size, "%s/weir", xdg);
    else if (home && home[0] == '/')
        length = snprintf(path, size, "%s/.local/state/weir", home);
    return length > 0 && (size_t)length < size;
}

/* The folder and those above it, for nobody else. */
static bool make_folders(const char *path)
{
    char copy[PATH_MAX];
    (void)snprintf(copy, sizeof(copy), "%s", path);
    for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(copy, 0700) && errno != EEXIST)
            return false;
        *slash = '/';
    }
    return mkdir(copy, 0700) == 0 || errno == EEXIST;
}

static void choose_example(struct weir_config *config)
{
    char folder[PATH_MAX];
    if (!state_directory(folder, sizeof(folder))) {
        fputs("weir: warning: no locks, because there is no STATE_DIRECTORY, XDG_STATE_HOME or HOME: --locks PATH\n",
              stderr);
        return;
    }
    if (!make_folders(folder)) {
        fprintf(stderr, "weir: warning: no locks, because %s cannot be made: %s\n", folder, strerror(errno));
        return;
    }
    config->locks.engine = WEIR_LOCKS_SQLITE;
    config->locks.path = weir_arena_print(config->arena, "%s/locks.db", folder);
}

int weir_cli_locks_choose(struct weir_config *config, const char *flag, bool is_example, char *ret_said, size_t size)
{
    struct weir_config_locks *locks = &config->locks;
    if (!flag) {
        if (is_example)
            choose_example(config);
        if (locks->engine == WEIR_LOCKS_SQLITE && !locks->path) {
            (void)snprintf(ret_said, size, "weir: %s", weir_error_text(WEIR_ENOMEM));
            return WEIR_EXIT_ERROR;
        }
        return 0;
    }
    *locks = (struct weir_config_locks){ .waiters_max = locks->waiters_max, .timeout_ns = locks->timeout_ns };
    if (strcmp(flag, "off") == 0)
        return 0;
    if (flag[0] == '\0') { /* one that is too long is refused where it is opened, with how long it may be */
        (void)snprintf(ret_said, size, "weir: --locks must be a path, or off");
        return WEIR_EXIT_ERROR;
    }
    locks->engine = WEIR_LOCKS_SQLITE;
    locks->path = flag;
    return 0;
}

/* ---- opening ---- */

static int open_engine(const struct weir_config_locks *locks, struct weir_lock_engine **ret_engine,
                       struct weir_fault *ret_fault)
{
    const struct weir_lock_sqlite_options sqlite = { .path = locks->path, .witness = locks->witness };
    const struct weir_lock_postgres_options postgres = { .conninfo = locks->conninfo.data,
                                                         .table = locks->table,
                                                         .witness = locks->witness };
    const struct weir_lock_etcd_options etcd = {
        .endpoints = locks->endpoints,
        .endpoints_count = locks->endpoints_count,
        .prefix = locks->prefix,
        .username = locks->username,
        .password = locks->password.data,
        .ca_file = locks->ca_file,
        .witness = locks->witness,
    };
    switch (locks->engine) {
    case WEIR_LOCKS_SQLITE:
        return weir_lock_sqlite_open(&sqlite, ret_engine, ret_fault);
    case WEIR_LOCKS_POSTGRES:
        return weir_lock_postgres_open(&postgres, ret_engine, ret_fault);
    case WEIR_LOCKS_ETCD:
        return weir_lock_etcd_open(&etcd, ret_engine, ret_fault);
    case WEIR_LOCKS_NONE:
    default:
        *ret_engine = NULL;
        return 0;
    }
}

int weir_cli_locks_open(const struct weir_config_locks *locks, bool is_example, struct weir_lock_engine **ret_engine)
{
    struct weir_fault fault = { 0 };
    int error = open_engine(locks, ret_engine, &fault);
    if (!error) {
        return 0;
    }
    const char *text = fault.text[0]         ? fault.text
                       : error == WEIR_EBUSY ? "another process keeps its locks there"
                                             : weir_error_text(error);
    fprintf(stderr, "weir: %slocks in %s%s%s: %s%s%s%s\n", is_example ? "warning: no " : "",
            weir_config_lock_engine_name(locks->engine), locks->path ? " at " : "", locks->path ? locks->path : "",
            fault.field, fault.field[0] ? " " : "", text, is_example ? " (--locks PATH, or off)" : "");
    *ret_engine = NULL;
    return is_example ? 0 : WEIR_EXIT_ERROR;
}

static bool copy_text(struct weir_arena *arena, const char **text)
{
    *text = *text ? weir_arena_copy(arena, *text, strlen(*text)) : NULL;
    return *text != NULL;
}

static bool copy_slice(struct weir_arena *arena, struct weir_slice *slice)
{
    slice->data = slice->data ? weir_arena_copy(arena, slice->data, slice->size) : NULL;
    return slice->data != NULL;
}

bool weir_cli_locks_copy(const struct weir_config_locks *locks, struct weir_arena *arena,
                         struct weir_config_locks *ret_copy)
{
    struct weir_config_locks copy = *locks;
    const char **texts[] = { &copy.path, &copy.witness, &copy.table, &copy.prefix, &copy.username, &copy.ca_file };
    struct weir_slice *slices[] = { &copy.conninfo, &copy.password };
    bool done = true;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        done = done && (!*texts[i] || copy_text(arena, texts[i]));
    for (size_t i = 0; i < sizeof(slices) / sizeof(slices[0]); i++)
        done = done && (!slices[i]->data || copy_slice(arena, slices[i]));
    copy.endpoints = weir_arena_alloc(arena, locks->endpoints_count + 1, sizeof(copy.endpoints[0]));
    done = done && copy.endpoints;
    for (size_t i = 0; done && i < locks->endpoints_count; i++) {
        copy.endpoints[i] = locks->endpoints[i];
        done = copy_text(arena, &copy.endpoints[i]);
    }
    if (done)
        *ret_copy = copy;
    return done;
}

void weir_cli_locks_print(const struct weir_config *config, const struct weir_lock_engine *engine)
{
    const struct weir_config_locks *locks = &config->locks;
    if (!engine)
        return;
    printf("weir: locks in %s", weir_config_lock_engine_name(locks->engine));
    if (locks->path)
        printf(" at %s", locks->path);
    if (locks->endpoints_count > 0)
        printf(" at %s", locks->endpoints[0]);
    if (locks->endpoints_count > 1)
        printf(" and %zu more", locks->endpoints_count - 1);
    putchar('\n');
}
