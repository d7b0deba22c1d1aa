/* SPDX-License-Identifier: Apache-2.0
 *
 * Times are in ns, everywhere inside weir; other units stand at its edges. (weir/limit.h has WEIR_NS_PER_SECOND.) */
#pragma once

#include <stdint.h>

#define WEIR_NS_PER_MS UINT64_C(1000000)
