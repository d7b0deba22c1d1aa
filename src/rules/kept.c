/* SPDX-License-Identifier: Apache-2.0
 *
 * "weir-rules-kept 1 NUMBER STORE CHECKSUM SIZE DIGEST", a line, and then the text as it is, so that people can read it
 * with what they read texts with. CHECKSUM is the text's SHA-256, DIGEST that of the line before it. A line is accepted
 * only if weir would write the same bytes for what it says. Called by the server's half that follows a store. */
#include "rules/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fault_format.h"
#include "base/folder.h"
#include "base/hex.h"
#include "rules/store_inside.h"

#define HEAD "weir-rules-kept "
#define FORMAT 1
#define LINE_SIZE 256

/* ---- the line ---- */

struct line {
    char bytes[LINE_SIZE];
    size_t size;
};

static int format(const struct weir_rule_head *head, size_t text_size, struct line *ret_line)
{
    char store[2 * sizeof head->store + 1], checksum[2 * sizeof head->checksum + 1];
    char digest[2 * WEIR_RULE_CHECKSUM_SIZE + 1];
    uint8_t raw[WEIR_RULE_CHECKSUM_SIZE];
    *weir_hex_write(store, head->store, sizeof head->store) = '\0';
    *weir_hex_write(checksum, head->checksum, sizeof head->checksum) = '\0';
    int size = snprintf(ret_line->bytes, LINE_SIZE, HEAD "%d %" PRIu64 " %s %s %zu ", FORMAT, head->number, store,
                        checksum, text_size);
    int error = weir_rule_checksum((struct weir_slice){ ret_line->bytes, (size_t)size }, raw);
    *weir_hex_write(digest, raw, sizeof raw) = '\0';
    ret_line->size = (size_t)size;
    ret_line->size += (size_t)snprintf(ret_line->bytes + size, LINE_SIZE - (size_t)size, "%s\n", digest);
    return error;
}

/* What a file begins with, of which there may be less than a line. WEIR_EPROTO, WEIR_ERANGE, WEIR_ECORRUPT. */
static int parse(const struct line *line, struct weir_rule_head *ret_head, size_t *ret_text_size)
{
    struct weir_rule_head head = { 0 };
    struct line again;
    size_t size = sizeof HEAD - 1 < line->size ? sizeof HEAD - 1 : line->size;
    if (memcmp(line->bytes, HEAD, size) != 0)
        return WEIR_EPROTO;
    char text[LINE_SIZE + 1];
    memcpy(text, line->bytes, line->size);
    text[line->size] = '\0';
    if (size < sizeof HEAD - 1 || !strchr(text, '\n'))
        return WEIR_ECORRUPT; /* cut off, as far as it goes */
    char *at = text + size;
    if (strtoull(at, &at, 10) > FORMAT)
        return WEIR_ERANGE;
    head.number = strtoull(at, &at, 10);
    if (*at != ' ' || strnlen(++at, 2 * sizeof head.store) < 2 * sizeof head.store ||
        !weir_hex_read(at, sizeof head.store, head.store))
        return WEIR_ECORRUPT;
    at += 2 * sizeof head.store;
    if (*at != ' ' || strnlen(++at, 2 * sizeof head.checksum) < 2 * sizeof head.checksum ||
        !weir_hex_read(at, sizeof head.checksum, head.checksum))
        return WEIR_ECORRUPT;
    at += 2 * sizeof head.checksum;
    size_t text_size = strtoull(at, &at, 10);
    if (head.number < 1 || head.number > WEIR_RULE_VERSIONS_MAX || text_size < 1 || text_size > WEIR_RULE_TEXT_MAX)
        return WEIR_ECORRUPT;
    if (format(&head, text_size, &again) != 0)
        return WEIR_ENOMEM;
    if (again.size > line->size || memcmp(again.bytes, line->bytes, again.size) != 0)
        return WEIR_ECORRUPT;
    *ret_head = head;
    *ret_text_size = text_size;
    return 0;
}

/* ---- reading ---- */

static int io_fault(const char *what, const char *path, struct weir_fault *ret_fault)
{
    return weir_fault_format(ret_fault, WEIR_EIO, "path", "cannot %s %.90s: %s", what, path, strerror(errno));
}

static int say(const char *path, int error, struct weir_fault *ret_fault)
{
    const char *why = error == WEIR_EPROTO   ? "is not weir's: it stays as it is"
                      : error == WEIR_ERANGE ? "was written by a later weir"
                                             : "is damaged or cut off: it is not used";
    if (error == WEIR_ENOMEM)
        return weir_fault_set(ret_fault, error, "", "out of memory");
    return weir_fault_format(ret_fault, error, "path", "%.110s %s", path, why);
}

static int check_path(const char *path, struct weir_fault *ret_fault)
{
    size_t size = strlen(path);
    return size >= 1 && size <= WEIR_RULE_PATH_MAX
               ? 0
               : weir_fault_format(ret_fault, WEIR_ERANGE, "path", "must be 1 to %d bytes", WEIR_RULE_PATH_MAX);
}

/* A FIFO is not waited for, and no link is followed. *ret_fd -1: there is nothing. */
static int open_plain(const char *path, int *ret_fd, struct weir_fault *ret_fault)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0 && errno == ELOOP)
        return say(path, WEIR_EPROTO, ret_fault);
    if (fd < 0 && errno != ENOENT)
        return io_fault("read", path, ret_fault);
    if (fd >= 0 && fstat(fd, &status) == 0 && !S_ISREG(status.st_mode)) {
        close(fd);
        return say(path, WEIR_EPROTO, ret_fault);
    }
    *ret_fd = fd;
    return 0;
}

/* Up to `size` bytes; fewer at the end of the file. */
static bool read_bytes(int fd, char *ret_bytes, size_t size, size_t *ret_size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = read(fd, ret_bytes + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    *ret_size = done;
    return true;
}

/* What is at the beginning of an open file; from there on the text follows. WEIR_EIO without a text in the fault. */
static int read_line(int fd, struct weir_rule_head *ret_head, size_t *ret_text_size)
{
    struct line line = { .size = 0 };
    if (!read_bytes(fd, line.bytes, LINE_SIZE, &line.size))
        return WEIR_EIO;
    int error = parse(&line, ret_head, ret_text_size);
    const char *end = error ? NULL : memchr(line.bytes, '\n', line.size);
    if (!error && lseek(fd, end + 1 - line.bytes, SEEK_SET) < 0)
        return WEIR_EIO;
    return error;
}

static int read_text(int fd, const struct weir_rule_head *head, size_t size, char *ret_text)
{
    uint8_t checksum[WEIR_RULE_CHECKSUM_SIZE];
    size_t got = 0;
    if (!read_bytes(fd, ret_text, size + 1, &got)) /* one more: nothing may follow */
        return WEIR_EIO;
    if (got != size)
        return WEIR_ECORRUPT;
    ret_text[size] = '\0';
    int error = weir_rule_checksum((struct weir_slice){ ret_text, size }, checksum);
    return !error && memcmp(checksum, head->checksum, sizeof checksum) != 0 ? WEIR_ECORRUPT : error;
}

int weir_rule_kept_read(const char *path, struct weir_rule_head *ret_head, char **ret_text, size_t *ret_size,
                        struct weir_fault *ret_fault)
{
    struct weir_rule_head head;
    char *text = NULL;
    size_t size = 0;
    int fd = -1, error = check_path(path, ret_fault);
    if (!error)
        error = open_plain(path, &fd, ret_fault);
    if (error)
        return error;
    if (fd < 0)
        return weir_fault_format(ret_fault, WEIR_ENOENT, "path", "there is no %.120s", path);
    error = read_line(fd, &head, &size);
    if (!error) {
        text = malloc(size + 1);
        error = text ? read_text(fd, &head, size, text) : WEIR_ENOMEM;
    }
    if (error) {
        error = error == WEIR_EIO ? io_fault("read", path, ret_fault) : say(path, error, ret_fault);
        close(fd);
        free(text);
        return error;
    }
    close(fd);
    *ret_head = head;
    *ret_text = text;
    *ret_size = size;
    return 0;
}

/* ---- writing ---- */

/* What is there must be weir's, if it is anything; damaged or not. */
static int may_replace(const char *path, struct weir_fault *ret_fault)
{
    struct weir_rule_head head;
    size_t size;
    int fd = -1, error = open_plain(path, &fd, ret_fault);
    if (error || fd < 0)
        return error;
    error = read_line(fd, &head, &size);
    if (error == WEIR_EIO)
        error = io_fault("read", path, ret_fault);
    else
        error = error == WEIR_EPROTO || error == WEIR_ERANGE ? say(path, error, ret_fault) : 0;
    close(fd);
    return error;
}

static bool write_bytes(int fd, const char *bytes, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = write(fd, bytes + done, size - done);
        if (n < 0 && errno != EINTR)
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

static int write_beside(const char *beside, const struct line *line, struct weir_slice text,
                        struct weir_fault *ret_fault)
{
    (void)unlink(beside); /* of one that was killed; and never through a link of somebody's */
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return io_fault("make", beside, ret_fault);
    bool written = write_bytes(fd, line->bytes, line->size) && write_bytes(fd, text.data, text.size) && fsync(fd) == 0;
    int error = written ? 0 : io_fault("write", beside, ret_fault);
    close(fd);
    return error;
}

int weir_rule_kept_write(const char *path, const struct weir_rule_head *head, struct weir_slice text,
                         struct weir_fault *ret_fault)
{
    char beside[WEIR_RULE_PATH_MAX + sizeof ".new"];
    uint8_t checksum[WEIR_RULE_CHECKSUM_SIZE];
    struct line line;
    int error = check_path(path, ret_fault);
    if (error)
        return error;
    if (head->number < 1 || head->number > WEIR_RULE_VERSIONS_MAX)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "head", "there is no such version");
    if (text.size < 1 || text.size > WEIR_RULE_TEXT_MAX)
        return weir_fault_format(ret_fault, WEIR_ERANGE, "text", "must be 1 to %zu bytes", WEIR_RULE_TEXT_MAX);
    if (weir_rule_checksum(text, checksum) != 0 || format(head, text.size, &line) != 0)
        return weir_fault_set(ret_fault, WEIR_ENOMEM, "", "out of memory");
    if (memcmp(checksum, head->checksum, sizeof checksum) != 0)
        return weir_fault_set(ret_fault, WEIR_EINVAL, "head", "its checksum is not the text's");
    error = may_replace(path, ret_fault);
    if (error)
        return error;
    (void)snprintf(beside, sizeof beside, "%s.new", path);
    error = write_beside(beside, &line, text, ret_fault);
    if (!error && rename(beside, path) != 0)
        error = io_fault("replace", path, ret_fault);
    if (error) {
        (void)unlink(beside);
        return error;
    }
    errno = weir_folder_sync(path);
    return errno ? io_fault("sync the folder of", path, ret_fault) : 0;
}
