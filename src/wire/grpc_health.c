/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and writes by protobuf-c. Called by serve/grpc_health.c through the table of grpc_library.c. */
#include "wire/grpc_health.h"

#include <string.h>

#include "base/assert.h"
#include "base/checked.h"
#include "wire/grpc_arena.h"
#include "wire/grpc_descriptors.h"
#include "wire/grpc_messages.pb-c.h"

#define ARENA_SIZE (2 * WEIR_GRPC_SERVICE_MAX)

int weir_grpc_health_read(const uint8_t *data, size_t size, char ret_service[WEIR_GRPC_SERVICE_MAX])
{
    _Alignas(max_align_t) uint8_t block[ARENA_SIZE];
    struct weir_grpc_arena arena;
    weir_grpc_arena_init(&arena, block, sizeof(block));
    const Grpc__Health__V1__HealthCheckRequest *request = grpc__health__v1__health_check_request__unpack(
        &arena.allocator, size, data);
    if (!request)
        return WEIR_EPROTO;
    const size_t length = weir_min_u64(request->service.len, WEIR_GRPC_SERVICE_MAX - 1);
    if (length > 0)
        memcpy(ret_service, request->service.data, length);
    ret_service[length] = '\0';
    return strlen(ret_service) == length ? 0 : WEIR_EPROTO; /* a NUL within it */
}

bool weir_grpc_health_knows(const char *service)
{
    bool known = service[0] == '\0';
    for (const char *const *one = weir_grpc_services; *one && !known; one++)
        known = strcmp(*one, service) == 0;
    return known;
}

size_t weir_grpc_health_write(enum weir_grpc_serving status, uint8_t buffer[WEIR_GRPC_HEALTH_MAX])
{
    Grpc__Health__V1__HealthCheckResponse answer = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    answer.status = (Grpc__Health__V1__HealthCheckResponse__ServingStatus)status;
    weir_assert(grpc__health__v1__health_check_response__get_packed_size(&answer) <= WEIR_GRPC_HEALTH_MAX);
    return grpc__health__v1__health_check_response__pack(&answer, buffer);
}
