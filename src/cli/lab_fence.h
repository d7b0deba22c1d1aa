/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of deploy/fence/redis.lua, as a text that lab_fence.sh makes of the file when weir is built. */
#pragma once

extern const char weir_lab_fence_text[];
