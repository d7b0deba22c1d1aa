/* SPDX-License-Identifier: Apache-2.0
 *
 * WEIR_TSAN: built for ThreadSanitizer, which must be told of reads that the processor does whole anyway. */
#pragma once

#if defined(__SANITIZE_THREAD__)
#define WEIR_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEIR_TSAN 1
#endif
#endif
