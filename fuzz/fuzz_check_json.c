/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as the body of POST /v1/check: a request within its ranges, or a fault that names a field. */
#include "base/assert.h"
#include "wire/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weir_check_request request;
    struct weir_fault fault = { { 0 }, { 0 } };
    int error = weir_check_parse(data, size, &request, &fault);
    if (error) {
        weir_assert(error == WEIR_EPROTO || error == WEIR_ERANGE || error == WEIR_ENOMEM);
        weir_assert(fault.text[0] && strlen(fault.text) < sizeof(fault.text));
        return 0;
    }
    weir_assert(request.cost <= WEIR_COST_MAX && request.count <= WEIR_CHECK_ATTRIBUTES_MAX);
    volatile uint8_t sum = 0; /* every byte of it can be read */
    for (size_t i = 0; i < request.count; i++) {
        const uint8_t *name = request.attributes[i].name.data, *value = request.attributes[i].value.data;
        for (size_t j = 0; j < request.attributes[i].name.size; j++)
            sum = (uint8_t)(sum + name[j]);
        for (size_t j = 0; j < request.attributes[i].value.size; j++)
            sum = (uint8_t)(sum + value[j]);
    }
    weir_check_deinit(&request);
    return 0;
}
