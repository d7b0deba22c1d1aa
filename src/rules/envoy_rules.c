/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of a folder, by name; each becomes a tree (envoy_rules_read.c), and all trees one text
 * (envoy_rules_write.c). No domain stands in two of them. Called by cli/serve_envoy.c, cli/stored.c and
 * cli/rules_import.c. */
#include "rules/envoy_rules.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/plural.h"
#include "base/regular.h"
#include "base/siphash.h"
#include "rules/envoy_rules_tree.h"
#include "rules/literal.h"

static int fail(struct weir_envoy_rules_fault *fault, int error, const char *path, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static int fail(struct weir_envoy_rules_fault *fault, int error, const char *path, const char *format, ...)
{
    char text[400];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    (void)snprintf(fault->text, sizeof(fault->text), "%s: %s", path, text);
    return error;
}

static int nomem(struct weir_envoy_rules_fault *fault)
{
    (void)snprintf(fault->text, sizeof(fault->text), "out of memory");
    return WEIR_ENOMEM;
}

/* ---- what is read ---- */

static bool is_same_name(struct weir_slice a, struct weir_slice b)
{
    char texts[2][WEIR_LITERAL_TEXT_MAX];
    const struct weir_slice left = weir_literal_canonical(a, 128, texts[0]);
    const struct weir_slice right = weir_literal_canonical(b, 128, texts[1]);
    return left.size == right.size && memcmp(left.data, right.data, left.size) == 0;
}

static int make(struct weir_envoy_rules *rules, const struct weir_envoy_rules_file *files, size_t count, bool attempts,
                const char **ret_file, struct weir_config_fault *ret_fault)
{
    struct weir_envoy_domain *first = NULL, **last = &first;
    for (size_t i = 0; i < count; i++) {
        struct weir_envoy_rules_file file = files[i];
        file.name = weir_arena_copy(rules->arena, files[i].name, strlen(files[i].name));
        *ret_file = files[i].name;
        int error = file.name ? weir_envoy_rules_read(&file, rules->arena, last, ret_fault)
                              : weir_config_fail(ret_fault, WEIR_ENOMEM, (struct weir_mark){ 0, 0 }, "out of memory");
        if (error)
            return error;
        for (const struct weir_envoy_domain *other = first; other != *last; other = other->next)
            if (is_same_name(other->name.text, (*last)->name.text))
                return weir_config_fail(ret_fault, WEIR_EINVAL, (*last)->name.mark,
                                        "the domain \"%.64s\" stands already in %.200s:%u: one domain is in one file",
                                        (const char *)other->name.text.data, other->file, other->name.mark.line);
        last = &(*last)->next;
    }
    rules->files_count = count;
    return weir_envoy_rules_write(rules, first, attempts, ret_file, ret_fault);
}

int weir_envoy_rules_make(const struct weir_envoy_rules_file *files, size_t count, bool attempts,
                          struct weir_envoy_rules **ret_rules, struct weir_envoy_rules_fault *ret_fault)
{
    struct weir_config_fault fault = { .text = "" };
    const char *file = "";
    struct weir_arena *arena = weir_arena_create();
    struct weir_envoy_rules *rules = arena ? weir_arena_alloc(arena, 1, sizeof(*rules)) : NULL;
    if (!rules) {
        weir_arena_destroy(arena);
        return nomem(ret_fault);
    }
    rules->arena = arena;
    int error = make(rules, files, count, attempts, &file, &fault);
    if (error) {
        weir_config_fault_format(&fault, file, ret_fault->text, sizeof(ret_fault->text));
        weir_envoy_rules_destroy(rules);
        return error;
    }
    *ret_rules = rules;
    return 0;
}

void weir_envoy_rules_destroy(struct weir_envoy_rules *rules)
{
    if (rules)
        weir_arena_destroy(rules->arena);
}

void weir_envoy_rules_place(const struct weir_envoy_rules *rules, const struct weir_config_fault *fault,
                            struct weir_envoy_rules_fault *ret_fault)
{
    const unsigned line = fault->mark.line;
    if (line < rules->first_line || line - rules->first_line >= rules->limits_count) {
        (void)snprintf(ret_fault->text, sizeof(ret_fault->text), "%s", fault->text);
        return;
    }
    const struct weir_envoy_rules_origin *origin = &rules->origins[line - rules->first_line];
    struct weir_config_fault there = *fault;
    there.mark = origin->mark;
    weir_config_fault_format(&there, origin->file, ret_fault->text, sizeof(ret_fault->text));
}

/* ---- the folder ---- */

struct folder {
    struct weir_envoy_rules_file files[WEIR_ENVOY_FILES_MAX];
    size_t count;
};

static bool ends_with(const char *name, const char *end)
{
    const size_t size = strlen(name), tail = strlen(end);
    return size > tail && strcmp(name + size - tail, end) == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct weir_envoy_rules_file *)a)->name, ((const struct weir_envoy_rules_file *)b)->name);
}

static int add_file(struct folder *folder, const char *path, struct weir_envoy_rules_fault *fault)
{
    struct stat file;
    if (stat(path, &file) != 0)
        return fail(fault, WEIR_EIO, path, "cannot be read: %s", strerror(errno));
    if (S_ISDIR(file.st_mode))
        return fail(fault, WEIR_EINVAL, path, "is a folder: all files are in the one that was named");
    if (!ends_with(path, ".yaml") && !ends_with(path, ".yml"))
        return fail(fault, WEIR_EINVAL, path, "would not be read: its name ends neither in .yaml nor in .yml");
    const char *why = weir_regular_fault(path);
    if (why)
        return fail(fault, WEIR_EIO, path, "cannot be read: %s", why);
    if (folder->count == WEIR_ENVOY_FILES_MAX)
        return fail(fault, WEIR_ELIMIT, path, "is one file too many: at most %d are read", WEIR_ENVOY_FILES_MAX);
    folder->files[folder->count].name = strdup(path);
    return folder->files[folder->count].name ? (folder->count++, 0) : nomem(fault);
}

static int list_files(struct folder *folder, const char *path, struct weir_envoy_rules_fault *fault)
{
    DIR *dir = opendir(path);
    int error = 0;
    if (!dir)
        return fail(fault, WEIR_EIO, path, "cannot be read: %s", strerror(errno));
    for (const struct dirent *entry = readdir(dir); entry && !error; entry = readdir(dir)) {
        char name[PATH_MAX];
        if (entry->d_name[0] == '.')
            continue;
        if (snprintf(name, sizeof(name), "%s/%s", path, entry->d_name) >= (int)sizeof(name))
            error = fail(fault, WEIR_EIO, path, "has a file with too long a name");
        else
            error = add_file(folder, name, fault);
    }
    (void)closedir(dir);
    if (!error && folder->count == 0)
        error = fail(fault, WEIR_ENOENT, path, "has no file whose name ends in .yaml");
    qsort(folder->files, folder->count, sizeof(folder->files[0]), by_name);
    return error;
}

/* Up to one byte more than is allowed, so that the parser says what is wrong. */
static int read_file(struct weir_envoy_rules_file *file, struct weir_envoy_rules_fault *fault)
{
    FILE *from = fopen(file->name, "rbe");
    struct stat about;
    if (!from || fstat(fileno(from), &about) != 0) {
        int error = fail(fault, WEIR_EIO, file->name, "cannot be read: %s", strerror(errno));
        if (from)
            (void)fclose(from);
        return error;
    }
    const size_t size = about.st_size < 0 ? 0 : (size_t)about.st_size;
    const size_t room = size > WEIR_CONFIG_BYTES_MAX ? WEIR_CONFIG_BYTES_MAX + 1 : size + 1;
    char *text = malloc(room);
    if (text)
        file->size = fread(text, 1, room, from);
    const bool failed = ferror(from) != 0;
    (void)fclose(from);
    file->text = text;
    if (!text)
        return nomem(fault);
    /* It has grown meanwhile: the next look sees that it was written to. */
    return failed ? fail(fault, WEIR_EIO, file->name, "cannot be read") : 0;
}

int weir_envoy_rules_load(const char *folder, bool attempts, struct weir_envoy_rules **ret_rules,
                          struct weir_envoy_rules_fault *ret_fault)
{
    struct folder *all = calloc(1, sizeof(*all));
    if (!all)
        return nomem(ret_fault);
    int error = list_files(all, folder, ret_fault);
    for (size_t i = 0; i < all->count && !error; i++)
        error = read_file(&all->files[i], ret_fault);
    if (!error)
        error = weir_envoy_rules_make(all->files, all->count, attempts, ret_rules, ret_fault);
    for (size_t i = 0; i < all->count; i++) {
        free((void *)(uintptr_t)all->files[i].name);
        free((void *)(uintptr_t)all->files[i].text);
    }
    free(all);
    return error;
}

/* ---- whether it is another one ---- */

static uint64_t mark_of(const char *name, const struct stat *file)
{
    const struct weir_sip_key fixed = { 0, 0 };
    const int64_t told[] = { (int64_t)file->st_dev,          (int64_t)file->st_ino,
                             (int64_t)file->st_size,         (int64_t)file->st_mtim.tv_sec,
                             (int64_t)file->st_mtim.tv_nsec, (int64_t)file->st_ctim.tv_sec,
                             (int64_t)file->st_ctim.tv_nsec };
    struct weir_siphash_state state;
    weir_siphash_start(&state, &fixed);
    weir_siphash_add(&state, name, strlen(name) + 1);
    weir_siphash_add(&state, told, sizeof(told));
    return weir_siphash_end(&state);
}

uint64_t weir_envoy_rules_mark(const char *folder)
{
    DIR *dir = opendir(folder);
    struct stat about;
    uint64_t mark = 1; /* in whatever order they come */
    if (!dir)
        return 0;
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        const bool there = entry->d_name[0] != '.' && fstatat(dirfd(dir), entry->d_name, &about, 0) == 0;
        mark += there ? mark_of(entry->d_name, &about) : 0;
    }
    (void)closedir(dir);
    return mark ? mark : 1;
}
