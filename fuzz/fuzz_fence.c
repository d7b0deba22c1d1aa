/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a token, and as the file of a fence: refused, or a mark that can be raised and is there after it was
 * opened again. The file is in memory where the system has such a place. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "weir/fence.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void token(const uint8_t *data, size_t size)
{
    struct weir_token token;
    char text[WEIR_TOKEN_TEXT_SIZE];
    if (weir_token_parse(data, size, &token) != 0)
        return;
    weir_assert(weir_token_valid(token) && weir_token_format(token, text) == 0);
    weir_assert(strlen(text) == size && memcmp(text, data, size) == 0);
}

static void file(const uint8_t *data, size_t size)
{
    static const struct weir_token latest = { INT64_MAX, INT64_MAX };
    char path[64], lock[72];
    struct weir_fence *fence = NULL;
    (void)snprintf(path, sizeof(path), "%s/weir-fuzz-fence-%d", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp",
                   (int)getpid());
    (void)snprintf(lock, sizeof(lock), "%s.lock", path);
    int made = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    weir_assert(made >= 0 && write(made, data, size) == (ssize_t)size);
    close(made);
    const struct weir_fence_options options = { .path = path, .names_max = 8 };
    int error = weir_fence_open(&options, &fence, NULL);
    weir_assert(error == 0 || error == WEIR_ECORRUPT || error == WEIR_ELIMIT);
    if (error == 0) {
        error = weir_fence_install(fence, "l", 1, latest);
        weir_assert(error == 0 || error == WEIR_ELIMIT);
        weir_fence_close(fence);
        weir_assert(weir_fence_open(&options, &fence, NULL) == 0);
        weir_assert(error || weir_token_compare(weir_fence_mark(fence, "l", 1), latest) == 0);
        weir_fence_close(fence);
    }
    unlink(path);
    unlink(lock);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    token(data, size);
    file(data, size);
    return 0;
}
