/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads with openat() below the folder and follows no link, so that what a link in it leads to is never served.
 * Loaded by cli/serve_site.c, asked by http_site.c. */
#include "serve/site.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/whole.h"

#define HASH_SIZE (sizeof("sha256-") - 1 + 44) /* of 32 bytes, in base64 */
#define NAME_MAX_BYTES 256

struct weir_site {
    struct weir_site_file *files; /* by name */
    size_t count;
    size_t bytes;
    char fields[WEIR_SITE_FIELDS_MAX];
};

static const struct {
    const char *end, *type;
} types[] = {
    { ".html", "text/html; charset=utf-8" },
    { ".css", "text/css; charset=utf-8" },
    { ".js", "text/javascript; charset=utf-8" },
    { ".json", "application/json" },
    { ".svg", "image/svg+xml" },
    { ".png", "image/png" },
    { ".gz", "application/gzip" },
};

static bool ends_with(const char *name, const char *end)
{
    size_t size = strlen(name), end_size = strlen(end);
    return size >= end_size && strcmp(name + size - end_size, end) == 0;
}

/* Sources that pages lead to are text, whatever they are written in. */
static const char *type_of(const char *name)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (ends_with(name, types[i].end))
            return types[i].type;
    }
    return "text/plain; charset=utf-8";
}

static bool is_name(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return name[0] != '.' && strspn(name, allowed) == strlen(name);
}

/* ---- reading ---- */

static int add(struct weir_site *site, const char *name, uint8_t *bytes, size_t size)
{
    if (site->count % 64 == 0) {
        struct weir_site_file *files = realloc(site->files, (site->count + 64) * sizeof(*files));
        if (!files)
            return WEIR_ENOMEM;
        site->files = files;
    }
    char *copy = strdup(name);
    if (!copy)
        return WEIR_ENOMEM;
    site->files[site->count++] = (struct weir_site_file){ copy, type_of(name), bytes, size };
    site->bytes += size;
    return 0;
}

static int read_file(struct weir_site *site, int fd, const char *name, off_t size, struct weir_fault *ret_fault)
{
    if (site->count == WEIR_SITE_FILES_MAX)
        return weir_fault_set(ret_fault, WEIR_ERANGE, name, "there are more than 1024 files");
    if (size < 0 || (uintmax_t)size > WEIR_SITE_BYTES_MAX - site->bytes)
        return weir_fault_set(ret_fault, WEIR_ERANGE, name, "the files are larger than 32 MiB together");
    uint8_t *bytes = malloc((size_t)size + 1);
    if (!bytes)
        return WEIR_ENOMEM;
    ssize_t got = weir_whole_read(fd, bytes, (size_t)size);
    int error = got < 0 ? weir_fault_set(ret_fault, WEIR_EIO, name, strerror(errno))
                        : add(site, name, bytes, (size_t)got);
    if (error)
        free(bytes);
    return error;
}

static int read_folder(struct weir_site *site, int fd, const char *prefix, unsigned depth,
                       struct weir_fault *ret_fault);

/* Takes over `fd`. */
static int read_entry(struct weir_site *site, int fd, const char *name, unsigned depth, struct weir_fault *ret_fault)
{
    struct stat file;
    int error = 0;
    if (fstat(fd, &file) != 0) {
        error = weir_fault_set(ret_fault, WEIR_EIO, name, strerror(errno));
    } else if (S_ISDIR(file.st_mode)) {
        if (depth < WEIR_SITE_DEPTH_MAX)
            return read_folder(site, fd, name, depth + 1, ret_fault);
        error = weir_fault_set(ret_fault, WEIR_ERANGE, name, "it lies deeper than 8 folders");
    } else if (S_ISREG(file.st_mode)) {
        error = read_file(site, fd, name, file.st_size, ret_fault);
    }
    close(fd);
    return error;
}

/* Takes over `fd`. A FIFO does not wait to be opened: O_NONBLOCK. */
static int read_folder(struct weir_site *site, int fd, const char *prefix, unsigned depth, struct weir_fault *ret_fault)
{
    DIR *folder = fdopendir(fd);
    if (!folder) {
        close(fd);
        return WEIR_ENOMEM;
    }
    int error = 0;
    for (const struct dirent *entry; !error && (entry = readdir(folder));) {
        char name[NAME_MAX_BYTES];
        int length = snprintf(name, sizeof(name), "%s%s%s", prefix, prefix[0] ? "/" : "", entry->d_name);
        if (!is_name(entry->d_name) || length < 0 || (size_t)length >= sizeof(name))
            continue;
        int inside = openat(dirfd(folder), entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (inside >= 0)
            error = read_entry(site, inside, name, depth, ret_fault);
        else if (errno != ELOOP && errno != ENXIO && errno != ENOENT) /* a link, a socket, gone */
            error = weir_fault_set(ret_fault, WEIR_EIO, name, strerror(errno));
    }
    closedir(folder);
    return error;
}

/* ---- what the pages may do ---- */

static bool is_hash(const char *line, size_t size)
{
    static const char base64[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/=";
    return size == HASH_SIZE && memcmp(line, "sha256-", 7) == 0 && strspn(line + 7, base64) >= size - 7;
}

/* Only what has the form of a hash may come into the answers' heads. */
static int write_fields(struct weir_site *site, const struct weir_site_file *list, struct weir_fault *ret_fault)
{
    size_t used = (size_t)snprintf(site->fields, sizeof(site->fields),
                                   "Content-Security-Policy: default-src 'none'; script-src 'self'");
    list->bytes[list->size] = '\0'; /* read_file left room for it */
    const char *at = (const char *)list->bytes;
    for (size_t count = 0; *at; count++) {
        size_t size = strcspn(at, "\n");
        if (count == WEIR_SITE_HASHES_MAX || at[size] != '\n' || !is_hash(at, size))
            return weir_fault_set(ret_fault, WEIR_EINVAL, WEIR_SITE_LIST, "it is no list of up to 32 hashes");
        used += (size_t)snprintf(site->fields + used, sizeof(site->fields) - used, " '%.*s'", (int)size, at);
        at += size + 1;
    }
    (void)snprintf(site->fields + used, sizeof(site->fields) - used,
                   "; style-src 'self'; img-src 'self' data:; connect-src 'self'; worker-src 'self'; base-uri 'none'; "
                   "form-action 'none'; frame-ancestors 'none'\r\n"
                   "X-Content-Type-Options: nosniff\r\n"
                   "Referrer-Policy: no-referrer\r\n"
                   "Cross-Origin-Opener-Policy: same-origin\r\n"
                   "Cross-Origin-Resource-Policy: same-origin\r\n"
                   "Vary: Accept-Encoding\r\n");
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct weir_site_file *one = a, *other = b;
    return strcmp(one->name, other->name);
}

int weir_site_load(const char *folder, struct weir_site **ret_site, struct weir_fault *ret_fault)
{
    struct weir_site *site = calloc(1, sizeof(*site));
    if (!site)
        return WEIR_ENOMEM;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = fd >= 0 ? read_folder(site, fd, "", 0, ret_fault)
                        : weir_fault_set(ret_fault, WEIR_EIO, folder, strerror(errno));
    if (!error && site->count > 0)
        qsort(site->files, site->count, sizeof(site->files[0]), by_name);
    const struct weir_site_file *list =
        error ? NULL : weir_site_find(site, (struct weir_slice){ WEIR_SITE_LIST, sizeof(WEIR_SITE_LIST) - 1 });
    if (!error)
        error = list ? write_fields(site, list, ret_fault)
                     : weir_fault_set(ret_fault, WEIR_EINVAL, WEIR_SITE_LIST, "it is not there, or no file");
    if (error) {
        weir_site_destroy(site);
        return error;
    }
    *ret_site = site;
    return 0;
}

void weir_site_destroy(struct weir_site *site)
{
    if (!site)
        return;
    for (size_t i = 0; i < site->count; i++) {
        free(site->files[i].name);
        free(site->files[i].bytes);
    }
    free(site->files);
    free(site);
}

/* ---- asked ---- */

size_t weir_site_count(const struct weir_site *site)
{
    return site->count;
}

const char *weir_site_fields(const struct weir_site *site)
{
    return site->fields;
}

/* The bytes asked for may hold a NUL, which no name does: lengths are compared too. */
static int compare(struct weir_slice asked, const char *name)
{
    size_t size = strlen(name), least = asked.size < size ? asked.size : size;
    int order = memcmp(asked.data, name, least);
    return order ? order : (asked.size > size) - (asked.size < size);
}

const struct weir_site_file *weir_site_find(const struct weir_site *site, struct weir_slice name)
{
    size_t low = 0, high = site->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare(name, site->files[middle].name);
        if (order == 0)
            return &site->files[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}
