/* SPDX-License-Identifier: Apache-2.0
 *
 * libweir, all of it. Link with -lweir (pkg-config weir). Start with weir/limiter.h. */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include "weir/error.h"
#include "weir/limit.h"
#include "weir/limiter.h"
#include "weir/version.h"

#endif
