/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a message of health and of reflection: they are read within their memory, and what is answered fits. */
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "wire/grpc_health.h"
#include "wire/grpc_reflection.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t buffer[WEIR_GRPC_REFLECTION_MAX];
    char service[WEIR_GRPC_SERVICE_MAX];
    if (weir_grpc_health_read(data, size, service) == 0)
        weir_assert(strlen(service) < sizeof(service) && (weir_grpc_health_knows(service) || service[0]));
    weir_assert(weir_grpc_reflection_answer(data, size, buffer) <= sizeof(buffer));
    return 0;
}
