/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of install, write and read. Each one lists the folder anew and goes by the names alone. A listing is no
 * snapshot, so verify() then asks whether its own mark is still there. A value is written and synced under a temporary
 * name and gets its own name by a hard link, so that it is whole when that name appears. Called by src/cli/fence.c
 * (`weir fence file`). The library's fence, whose marks are in memory or in a log, is fence.c. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/whole.h"
#include "locks/fence_dir.h"

#define DIGITS 19
#define NAME_SIZE 96
#define TRIES_MAX 1000
#define LOOKS 20

/* What a name in the folder says. */
enum kind { FOREIGN, MARK, VALUE, TEMPORARY };
struct entry {
    enum kind kind;
    struct weir_token token;
    uint64_t sequence;
};

/* One look at the folder. */
struct look {
    bool any_mark, own_mark;
    struct weir_token mark; /* the highest */
    bool any_value, own_value, older_value;
    struct entry value;    /* the highest of all */
    uint64_t own_sequence; /* the highest of the token asked for */
    struct entry older;    /* the highest of a token before it */
};

static bool number_read(const char **at, uint64_t *ret_number)
{
    uint64_t number = 0;
    for (int i = 0; i < DIGITS; i++, ++*at) {
        if (**at < '0' || **at > '9')
            return false;
        number = number * 10 + (uint64_t)(**at - '0');
    }
    *ret_number = number;
    return true;
}

static struct entry entry_read(const char *name)
{
    struct entry entry = { .kind = FOREIGN };
    bool temporary = strncmp(name, ".new.", 5) == 0;
    name += temporary ? 5 : 0;
    if (!number_read(&name, &entry.token.incarnation) || *name++ != '.' || !number_read(&name, &entry.token.number) ||
        *name++ != '.' || !weir_token_valid(entry.token))
        return entry;
    if (temporary)
        entry.kind = TEMPORARY;
    else if (strcmp(name, "mark") == 0)
        entry.kind = MARK;
    else if (number_read(&name, &entry.sequence) && *name == '\0')
        entry.kind = VALUE;
    return entry;
}

static void mark_name(struct weir_token token, char name[NAME_SIZE])
{
    (void)snprintf(name, NAME_SIZE, "%019llu.%019llu.mark", (unsigned long long)token.incarnation,
                   (unsigned long long)token.number);
}

static void value_name(struct weir_token token, uint64_t sequence, char name[NAME_SIZE])
{
    (void)snprintf(name, NAME_SIZE, "%019llu.%019llu.%019llu", (unsigned long long)token.incarnation,
                   (unsigned long long)token.number, (unsigned long long)sequence);
}

static int entry_compare(const struct entry *a, const struct entry *b)
{
    int order = weir_token_compare(a->token, b->token);
    return order ? order : (a->sequence > b->sequence) - (a->sequence < b->sequence);
}

static void look_add(struct look *look, const struct entry *entry, struct weir_token token)
{
    int order = weir_token_compare(entry->token, token);
    if (entry->kind == MARK) {
        if (!look->any_mark || weir_token_compare(entry->token, look->mark) > 0)
            look->mark = entry->token;
        look->any_mark = true;
        look->own_mark |= order == 0;
    } else if (entry->kind == VALUE) {
        if (!look->any_value || entry_compare(entry, &look->value) > 0)
            look->value = *entry;
        look->any_value = true;
        if (order == 0) {
            look->own_sequence = entry->sequence > look->own_sequence ? entry->sequence : look->own_sequence;
            look->own_value = true;
        } else if (order < 0 && (!look->older_value || entry_compare(entry, &look->older) > 0)) {
            look->older = *entry;
            look->older_value = true;
        }
    }
}

/* The folder opened anew: a descriptor that was read before would show what it has buffered. */
static DIR *folder_open(int folder)
{
    int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = again >= 0 ? fdopendir(again) : NULL;
    if (!dir && again >= 0)
        close(again);
    return dir;
}

static int look_at(int folder, struct weir_token token, struct look *ret_look)
{
    struct look look = { .any_mark = false };
    DIR *dir = folder_open(folder);
    if (!dir)
        return WEIR_EIO;
    for (;;) {
        errno = 0;
        const struct dirent *found = readdir(dir);
        if (!found)
            break;
        struct entry entry = entry_read(found->d_name);
        look_add(&look, &entry, token);
    }
    int error = errno;
    closedir(dir);
    errno = error;
    if (error)
        return WEIR_EIO;
    *ret_look = look;
    return 0;
}

/* 0: this token is the highest installed. The own mark is asked for after the look: if it is still there, no higher one
 * was removed while we looked. If it is not, a later holder's install removed it, or it never was: a listing is no
 * snapshot, so one that shows neither mark is taken again, up to `looks` times. */
static int verify(int folder, struct weir_token token, int looks, struct look *look, struct weir_token *ret_mark)
{
    char name[NAME_SIZE];
    mark_name(token, name);
    for (int i = 0; i < looks; i++) {
        int error = look_at(folder, token, look);
        if (error)
            return error;
        if (look->any_mark && weir_token_compare(look->mark, token) > 0) {
            if (ret_mark)
                *ret_mark = look->mark;
            return WEIR_EFENCED;
        }
        if (look->own_mark && faccessat(folder, name, F_OK, 0) == 0)
            return 0;
        if (look->own_mark && errno != ENOENT)
            return WEIR_EIO;
    }
    return WEIR_ENOTINSTALLED;
}

static int empty_make(int folder, const char *name)
{
    int file = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0)
        return errno == EEXIST ? 0 : WEIR_EIO;
    int error = fsync(file) == 0 ? 0 : WEIR_EIO;
    return close(file) == 0 ? error : WEIR_EIO;
}

/* The new token's own value 0: what was the value. The older one may be removed while we link it, by its own holder's
 * next write: then there is a newer one. */
static int inherit(int folder, struct weir_token token)
{
    char from[NAME_SIZE], to[NAME_SIZE];
    struct look look;
    value_name(token, 0, to);
    for (int i = 0; i < TRIES_MAX; i++) {
        int error = look_at(folder, token, &look);
        if (error || look.own_value)
            return error;
        if (!look.older_value)
            return empty_make(folder, to);
        value_name(look.older.token, look.older.sequence, from);
        if (linkat(folder, from, folder, to, 0) == 0 || errno == EEXIST)
            return 0;
        if (errno != ENOENT)
            return WEIR_EIO;
    }
    return WEIR_EIO;
}

struct names {
    char (*list)[NAME_SIZE];
    size_t count, room;
};

static int names_compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static bool names_add(struct names *names, const char *name)
{
    if (names->count == names->room) {
        size_t room = names->room ? names->room * 2 : 64;
        char(*list)[NAME_SIZE] = reallocarray(names->list, room, sizeof(*list));
        if (!list)
            return false;
        names->list = list;
        names->room = room;
    }
    size_t size = strlen(name) + 1;
    if (size <= NAME_SIZE)
        memcpy(names->list[names->count++], name, size);
    return true;
}

/* Removes entries of `kind` before `below`, in ascending order: those of older tokens for an install, those of the same
 * token for a write. What fails is left for the next time: all of it where the list is not whole, for what it lacks may
 * be older than what it has. */
static void remove_below(int folder, enum kind kind, const struct entry *below)
{
    struct names names = { .count = 0 };
    DIR *dir = folder_open(folder);
    if (!dir)
        return;
    bool whole = true;
    errno = 0;
    for (const struct dirent *found; whole && (found = readdir(dir)) != NULL; errno = 0) {
        struct entry entry = entry_read(found->d_name);
        bool same = weir_token_compare(entry.token, below->token) == 0;
        if (entry.kind == kind && entry_compare(&entry, below) < 0 && (same ? kind == VALUE : below->sequence == 0))
            whole = names_add(&names, found->d_name);
    }
    whole = whole && errno == 0;
    closedir(dir);
    if (names.count > 0)
        qsort(names.list, names.count, sizeof(*names.list), names_compare);
    for (size_t i = 0; whole && i < names.count; i++) {
        if (unlinkat(folder, names.list[i], 0) != 0 && errno != ENOENT)
            break; /* a later one must not go first */
    }
    free(names.list);
}

static int install(int folder, struct weir_token token, struct weir_token *ret_mark)
{
    char name[NAME_SIZE];
    struct look look;
    int error = verify(folder, token, 1, &look, ret_mark);
    if (error && error != WEIR_ENOTINSTALLED)
        return error;
    if (!error && look.own_value)
        return fsync(folder) == 0 ? 0 : WEIR_EIO; /* installed before */
    mark_name(token, name);
    error = empty_make(folder, name);
    if (!error)
        error = verify(folder, token, LOOKS, &look, ret_mark);
    if (!error)
        error = inherit(folder, token);
    if (!error && fsync(folder) != 0)
        error = WEIR_EIO;
    if (!error)
        error = verify(folder, token, LOOKS, &look, ret_mark);
    if (error == WEIR_EFENCED)
        (void)unlinkat(folder, name, 0);
    if (error)
        return error == WEIR_ENOTINSTALLED ? WEIR_EIO : error;
    const struct entry below = { .token = token };
    remove_below(folder, MARK, &below);
    remove_below(folder, VALUE, &below);
    remove_below(folder, TEMPORARY, &below);
    return 0;
}

static int copy(int from, int to)
{
    char buffer[65536];
    for (;;) {
        ssize_t got = weir_whole_read(from, buffer, sizeof(buffer));
        if (got <= 0)
            return got == 0 ? 0 : WEIR_EIO;
        if (!weir_whole_write(to, buffer, (size_t)got))
            return WEIR_EIO;
    }
}

/* Everything of `from` in a file that nobody reads yet. */
static int temporary_make(int folder, struct weir_token token, int from, char name[NAME_SIZE])
{
    uint64_t random = 0;
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return WEIR_EIO;
    (void)snprintf(name, NAME_SIZE, ".new.%019llu.%019llu.%016llx", (unsigned long long)token.incarnation,
                   (unsigned long long)token.number, (unsigned long long)random);
    int file = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0)
        return WEIR_EIO;
    int error = copy(from, file);
    if (!error && fsync(file) != 0)
        error = WEIR_EIO;
    if (close(file) != 0)
        error = WEIR_EIO;
    if (error) {
        int why = errno;
        (void)unlinkat(folder, name, 0);
        errno = why;
    }
    return error;
}

/* Makes it the token's next value: a hard link is exclusive, and the file is whole when its name appears. */
static int publish(int folder, struct weir_token token, const char *temporary, uint64_t next, uint64_t *ret_sequence)
{
    char name[NAME_SIZE];
    for (int i = 0; i < TRIES_MAX; i++, next++) {
        value_name(token, next, name);
        if (linkat(folder, temporary, folder, name, 0) == 0) {
            *ret_sequence = next;
            return fsync(folder) == 0 ? 0 : WEIR_EIO;
        }
        if (errno != EEXIST)
            return WEIR_EIO;
    }
    return WEIR_EIO;
}

static int write_value(int folder, struct weir_token token, int from, struct weir_token *ret_mark)
{
    char temporary[NAME_SIZE];
    struct look look;
    uint64_t sequence = 0;
    int error = verify(folder, token, LOOKS, &look, ret_mark);
    /* A look beside other writers of this token can miss the values that they replace; an install that has not ended is
     * seen again and again. */
    for (int i = 0; i < LOOKS && !error && !look.own_value; i++)
        error = verify(folder, token, LOOKS, &look, ret_mark);
    if (!error && !look.own_value)
        error = WEIR_ENOTINSTALLED;
    if (!error)
        error = temporary_make(folder, token, from, temporary);
    if (error)
        return error;
    /* Again, because `from` may have taken long: nearly every late writer is told here that nothing was written. */
    error = verify(folder, token, LOOKS, &look, ret_mark);
    bool named = !error;
    if (named)
        error = publish(folder, token, temporary, look.own_sequence + 1, &sequence);
    if (error == WEIR_EIO && errno == ENOENT) /* a later holder's install has removed it: never named */
        error = verify(folder, token, LOOKS, &look, ret_mark) == WEIR_EFENCED ? WEIR_EFENCED : WEIR_EIO;
    int why = errno;
    (void)unlinkat(folder, temporary, 0);
    errno = why;
    if (error)
        return error;
    error = verify(folder, token, LOOKS, &look, ret_mark);
    if (error)
        return error == WEIR_EIO ? WEIR_EIO : WEIR_EUNKNOWN;
    const struct entry below = { .token = token, .sequence = sequence };
    remove_below(folder, VALUE, &below);
    return 0;
}

static int folder_of(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void folder_close(int folder)
{
    int why = errno;
    close(folder);
    errno = why;
}

int weir_fence_dir_install(const char *path, struct weir_token token, struct weir_token *ret_mark)
{
    if (!weir_token_valid(token))
        return WEIR_ERANGE;
    int folder = folder_of(path);
    if (folder < 0)
        return WEIR_EIO;
    int error = install(folder, token, ret_mark);
    folder_close(folder);
    return error;
}

int weir_fence_dir_write(const char *path, struct weir_token token, int from, struct weir_token *ret_mark)
{
    if (!weir_token_valid(token))
        return WEIR_ERANGE;
    int folder = folder_of(path);
    if (folder < 0)
        return WEIR_EIO;
    int error = write_value(folder, token, from, ret_mark);
    folder_close(folder);
    return error;
}

/* WEIR_EBUSY: look again. */
static int read_once(int folder, int *ret_file, struct weir_token *ret_token)
{
    static const struct weir_token none = { 0, 0 };
    char name[NAME_SIZE];
    struct look look, again;
    int error = look_at(folder, none, &look);
    if (error)
        return error;
    if (!look.any_mark && !look.any_value) {
        *ret_token = none;
        *ret_file = -1;
        return 0;
    }
    if (!look.any_mark || !look.any_value || weir_token_compare(look.mark, look.value.token) != 0)
        return WEIR_EBUSY;
    value_name(look.value.token, look.value.sequence, name);
    int file = openat(folder, name, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return errno == ENOENT ? WEIR_EBUSY : WEIR_EIO;
    error = verify(folder, look.mark, LOOKS, &again, NULL);
    if (error) {
        folder_close(file);
        return error == WEIR_EIO ? WEIR_EIO : WEIR_EBUSY;
    }
    *ret_token = look.mark;
    *ret_file = file;
    return 0;
}

int weir_fence_dir_read(const char *path, int *ret_file, struct weir_token *ret_token)
{
    int folder = folder_of(path);
    if (folder < 0)
        return WEIR_EIO;
    int error = WEIR_EBUSY;
    for (int i = 0; i < TRIES_MAX && error == WEIR_EBUSY; i++) {
        if (i > 0)
            usleep(2000);
        error = read_once(folder, ret_file, ret_token);
    }
    folder_close(folder);
    return error;
}
