/* SPDX-License-Identifier: Apache-2.0
 *
 * libweir, all of it. Link with -lweir (pkg-config weir). Start with weir/limiter.h,
 * or with weir/lock.h and weir/fence.h. */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include "weir/error.h"
#include "weir/fence.h"
#include "weir/limit.h"
#include "weir/limiter.h"
#include "weir/lock.h"
#include "weir/reserve.h"
#include "weir/snapshot.h"
#include "weir/version.h"

#endif
