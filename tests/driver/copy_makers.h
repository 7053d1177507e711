/* SPDX-License-Identifier: Apache-2.0 */
/* The host's copy engines, each in every way it can work, for the programs that test them all. */
#ifndef RLX_TESTS_COPY_MAKERS_H
#define RLX_TESTS_COPY_MAKERS_H

#include "conformance/copy_suite.h"

static const copy_maker copy_makers[] = {
    {"copy engine sync", rlx_copy_engine_create_sync, 0, false, false, false, 1700, NULL, NULL,
     NULL},
    {"copy engine thread", rlx_copy_engine_create_thread, 0, true, true, false, 1700, NULL, NULL,
     NULL},
    {"copy engine file", rlx_copy_engine_create_file, 0, true, true, true, 1700, NULL, NULL, NULL},
    {"copy engine file, buffered", rlx_copy_engine_create_file, RLX_COPY_BUFFERED, true, true, true,
     1700, NULL, NULL, NULL},
    {"copy engine file, threads", rlx_copy_engine_create_file, RLX_COPY_THREADS, true, true, true,
     1700, NULL, NULL, NULL},
    {"copy engine file, threads, buffered", rlx_copy_engine_create_file,
     RLX_COPY_THREADS | RLX_COPY_BUFFERED, true, true, true, 1700, NULL, NULL, NULL},
};
enum { COPY_MAKER_COUNT = sizeof copy_makers / sizeof copy_makers[0] };

#endif
