/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes: parsing RESP stays inside them, and says the same whether they come at once or one by one. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "wire/resp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct weir_resp_bounds bounds = { .args_max = 64, .size_max = 4096 };

struct outcome {
    uint64_t digest; /* of everything that came out, in order */
    size_t taken;
};

static void add(struct outcome *outcome, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < size; i++)
        outcome->digest = (outcome->digest ^ at[i]) * UINT64_C(0x100000001b3);
}

/* Parses all that is whole of data[outcome->taken .. size); false when the stream has ended in an error. */
static bool parse(struct weir_resp_progress *progress, const uint8_t *data, size_t size,
                  struct weir_resp_command *command, struct outcome *outcome)
{
    while (outcome->taken < size) {
        int error = weir_resp_parse(progress, data + outcome->taken, size - outcome->taken, &bounds, command);
        if (error == WEIR_EAGAIN)
            return true;
        if (error) {
            add(outcome, command->error, strlen(command->error));
            return false;
        }
        weir_assert(command->size > 0 && command->size <= size - outcome->taken);
        add(outcome, &command->count, sizeof(command->count));
        for (size_t i = 0; i < command->count; i++) {
            add(outcome, &command->args[i].size, sizeof(command->args[i].size));
            add(outcome, command->args[i].data, command->args[i].size);
        }
        outcome->taken += command->size;
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weir_resp_command *command = malloc(sizeof(*command));
    struct weir_resp_progress progress = { 0 };
    struct outcome whole = { 0 };
    struct outcome cut = { 0 };
    parse(&progress, data, size, command, &whole);
    progress = (struct weir_resp_progress){ 0 };
    for (size_t end = 1; end <= size && parse(&progress, data, end, command, &cut); end++) {
    }
    weir_assert(whole.digest == cut.digest && whole.taken == cut.taken);
    free(command);
    return 0;
}
