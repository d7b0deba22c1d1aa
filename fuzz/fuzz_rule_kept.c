/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as the file of the last good rule set: what is read is what would be written, or it is not used. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "rules/kept.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_file(const char *path, const uint8_t *data, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    weir_assert(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    close(fd);
}

/* Written again, it has the same bytes. */
static void check_again(const char *path, const struct weir_rule_head *head, struct weir_slice text,
                        const uint8_t *data, size_t size)
{
    uint8_t *again = malloc(size + 1);
    weir_assert(again && weir_rule_kept_write(path, head, text, NULL) == 0);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    weir_assert(fd >= 0 && read(fd, again, size + 1) == (ssize_t)size && memcmp(again, data, size) == 0);
    close(fd);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64], *text = NULL;
    struct weir_rule_head head;
    size_t text_size;
    /* A file of its own: a link, as to a descriptor, is not followed. */
    (void)snprintf(path, sizeof(path), "/dev/shm/weir-fuzz-kept-%d", (int)getpid());
    write_file(path, data, size);
    int error = weir_rule_kept_read(path, &head, &text, &text_size, NULL);
    weir_assert(error == 0 || error == WEIR_ECORRUPT || error == WEIR_EPROTO || error == WEIR_ERANGE);
    if (error == 0) {
        weir_assert(text_size < size && text[text_size] == '\0');
        check_again(path, &head, (struct weir_slice){ text, text_size }, data, size);
        free(text);
    }
    (void)unlink(path);
    return 0;
}
